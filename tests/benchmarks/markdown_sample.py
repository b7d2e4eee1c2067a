"""Markdown dense in blocks, and the words by which its end is found on the screen."""

from __future__ import annotations

_SECTION = """\
## part {i}

some **bold** words with `code` and a [link](https://example.com/{i}) that go on for a while.

- a first item with *emphasis*
- a second item
  - one inside

```python
def part_{i}(x: int) -> int:
    return x + {i}  # a comment
```

| name | value |
|------|------:|
| part | {i} |

"""


def sample(characters: int) -> str:
    """So many characters, without any of those that ``echo`` types."""
    parts: list[str] = []
    length = 0
    while length < characters:
        part = _SECTION.replace("{i}", str(len(parts)))
        parts.append(part)
        length += len(part)
    return "".join(parts)[:characters]


def mark(number: int) -> str:
    """The last words of the reply ``number``."""
    return f"this-was-all-of-{number}-and-no-more"
