"""Ways around a rule for a command (R04, R05): none runs by it, and what is harmless does."""

from __future__ import annotations

import pytest

from duckflow_tui.safety.command_parsing import read_command
from duckflow_tui.safety.rules import AllowRules

#: What a user may have named, as generously as a rule can be.
RULES = AllowRules.parse_rules(
    [
        *("pytest:*", "git log:*", "git diff:*", "git show:*", "git grep:*", "git status:*"),
        *("git fetch:*", "find:*", "rg:*", "sort:*", "make:*", "npm run test:*", "cargo test:*"),
        *("go test:*", "ruff check:*", "echo:*", "printf:*", "test:*", "ls:*", "tree:*"),
        *("uv run pytest:*", "true:*", "git ls-files:*"),
    ]
)


def runs(line: str, *, held: bool = True) -> bool:
    """Whether the line would run by the rules."""
    return not RULES.find_objection(read_command(line), lambda target: target == "sub", held=held)


SHELL = """
echo a; touch x
echo a && touch x
true || touch x
echo a | touch x
echo a | xargs touch
echo a |& touch x
echo a & touch x
echo a &
echo a > x
echo a >> x
echo a >| x
echo a &> x
echo a >&x
echo a 1<> x
echo a 2> x
ls < x
ls <<< $(touch x)
echo $(touch x)
echo `touch x`
echo "$(touch x)"
echo "`touch x`"
echo ${x:-$(touch x)}
echo ${x@P}
echo $((a[$(touch x)]))
echo $[a[$(touch x)]]
ls <(touch x)
ls >(touch x)
echo {touch,x}
{touch,x}
tou''ch x
t\\ouch x
$'touch' x
$'\\x74ouch' x
$"touch" x
"touch" x
t?uch x
/bin/t[o]uch x
~/touch x
~+/touch x
./echo a
sub/echo a
../echo a
PATH=. echo a
PATH=.:/bin ls
LD_PRELOAD=./x.so ls
GIT_EXTERNAL_DIFF=./x git diff
env touch x
env -S 'touch x'
nohup touch x
nice touch x
time touch x
timeout 5 touch x
command touch x
builtin eval 'touch x'
exec touch x
eval 'touch x'
source x
. x
. ./x
alias echo=touch
alias echo=touch; echo x
echo() { touch x; }
function echo { touch x; }
echo() (touch x); echo a
trap 'touch x' EXIT
trap 'touch x' EXIT; true
hash -p ./x echo; echo a
enable -n echo; echo a
enable -f ./x.so echo
coproc touch x
! touch x
{ touch x; }
(touch x)
if true; then touch x; fi
for a in x; do touch $a; done
while touch x; do true; done
case a in a) touch x;; esac
[[ -v a[$(touch x)] ]]
[[ a[$(touch x)] -eq 0 ]]
[ -v 'a[$(touch x)]' ]
((a[$(touch x)]))
let 'a[$(touch x)]'
read PATH && ls
mapfile -C 'touch x' -c 1
getopts a 'b[$(touch x)]'
export PATH=. && ls
declare -x PATH=.
unset PATH; ls
set -o allexport; ls
shopt -s expand_aliases
cd .. && ls
cd / && ls
cd sub && cd .. && ls
cd sub/../.. && ls
cd - && ls
pushd / && ls
ls !!
echo !$
echo a # b
xargs touch
sudo ls
bash -c 'touch x'
sh x
python3 -c 'open("x","w")'
perl -e 'x'
""".strip().splitlines()

HIDDEN = [
    "echo a\ntouch x",
    "echo a\rtouch x",
    "echo a\x00touch x",
    "echo a\u2028touch x",
    "echo a\u2029touch x",
    "echo a\x0btouch x",
    "echo a\x85touch x",
    "echo a \\\n; touch x",
    "echo <<E\n$(touch x)\nE",
    "echo 'a\n'; touch x",
    "echo a\u202e",
    "ls\u200b",
    "ls \x1b[2J",
    "ec\\\nho a",
]


@pytest.mark.parametrize("line", [*SHELL, *HIDDEN])
def test_a_way_around_a_rule_does_not_run_by_it(line: str) -> None:
    assert not runs(line)


@pytest.mark.parametrize(
    "line",
    """
pytest
pytest -q
pytest -xvs tests/test_a.py::test_b
pytest -q -k 'a or b' --maxfail=2 --tb=short
pytest -q -p no:cacheprovider --durations=5
uv run pytest -q --cov=src
git log --oneline -5
git log -p --stat --follow -- a.py
git log --author=me --grep=fix
git diff --stat
git diff HEAD~1 -- a.py
git show --name-only HEAD
git grep -n 'to do'
git status --short
git ls-files -o --exclude-standard
git fetch origin main
find . -name '*.py' -type f
find . -maxdepth 2 -not -name x -o -name y
rg -n --glob '*.py' 'def x'
sort -u -k2 a.txt
make test
make -j4 -k all
npm run test -- --watch=no --config=x
cargo test --workspace -- --nocapture
go test ./... -run TestA -v
ruff check . --fix
echo 'a; touch x' "b && c"
printf '%s\\n' 'a[0]' '$(x)'
test -f a.py && echo yes
ls -la sub 2>/dev/null
cd sub && ls
git status 2>&1 | sort
find . -exec touch x ';'
make -f other SHELL=./x
git log --output=x
""".strip().splitlines(),
)
def test_what_is_harmless_runs_in_a_full_sandbox_and_nowhere_else(line: str) -> None:
    """R05: whatever follows a beginning, options that write or run something else too."""
    assert runs(line)
    assert not runs(line, held=False)
