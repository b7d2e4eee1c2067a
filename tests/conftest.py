"""What holds for every test: no test fails on a time, so property tests have no clock either."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("duckflow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("duckflow")
