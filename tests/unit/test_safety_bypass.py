"""Ways around a rule for a command (R04, R05): none runs by it, and what is harmless does."""

from __future__ import annotations

import pytest

from duckflow_tui.safety.allow_rules import AllowRules, RuleRefused, granted_as
from duckflow_tui.safety.command_risk import known_use
from duckflow_tui.safety.commands import read_command

#: What a user may have named, as generously as a rule can be.
RULES = AllowRules.parse_rules(
    [
        *("pytest:*", "git log:*", "git diff:*", "git show:*", "git grep:*", "git status:*"),
        *("git fetch:*", "find:*", "rg:*", "sort:*", "make:*", "npm run test:*", "cargo test:*"),
        *("go test:*", "ruff check:*", "echo:*", "printf:*", "test:*", "ls:*", "tree:*"),
        *("uv run pytest:*", "true:*", "git ls-files:*"),
    ]
)


def runs(line: str) -> bool:
    """Whether the line would run by the rules."""
    return not RULES.why_not(read_command(line), lambda target: target == "sub")


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
test -v 'a[$(touch x)]'
test a -a -v 'a[$(touch x)]'
test -R 'a[$(touch x)]'
printf -v 'a[$(touch x)]' y
printf -v PATH . && ls
printf -vPATH . && ls
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

OPTIONS = """
git -c core.pager='touch x' log
git -c alias.log='!touch x' log
git --exec-path=. log
git -C .. log
git --git-dir=x log
git -p log
git log --output=x
git log --outpu=x
git log -p --ext-diff
git log --textconv
git log --ext
git diff --ext-diff
git diff --output x
git diff -Oorder
git show --output=x
git grep -O./x a
git grep --open-files-in-pager=./x a
git grep --open a
git fetch --upload-pack=./x
git fetch --upload-pack ./x origin
git fetch 'ext::sh -c touch% x'
find . -exec touch x ';'
find . -execdir touch x ';'
find . -ok touch x ';'
find . -okdir touch x ';'
find . -delete
find . -fprint x
find . -fprintf x a
find . -fls x
rg --pre ./x a
rg --pre=./x a
rg --hostname-bin=./x a
sort -o x a
sort -ox a
sort -uo x a
sort --output=x a
sort --outp=x a
sort --compress-program=./x a
sort --comp ./x a
sort -T . a
tree -o x
pytest -p tool
pytest -ptool
pytest -xp tool
pytest -c x.ini
pytest -o addopts=-ptool
pytest --rootdir=/
pytest --basetemp=/home
pytest --base=/home
pytest --confcutdir=/
pytest --junitxml=x
pytest --override-ini=x
pytest --pdbcls=x:y
pytest @x
pytest -W error::x.Y
python3 -m pytest -p tool
python3 -m git status
python3 -m git log --oneline
python3.11 -m ls
python -m make test
python3 -m uv run pytest
python3 -m ruff check
uv run pytest -p tool
uv run --with x pytest
make -f x
make -fx
make --file=x
make --makefile x
make --mak=x
make -C sub
make --eval='x:=$(shell touch x)'
make SHELL=./x
make CC=./x all
make -j4 -f x
npm --prefix x run test
npm run test --prefix x
npm run test --script-shell=./x
npm run test2
npm exec x
cargo test --config build.rustc-wrapper=./x
cargo test --manifest-path x
cargo --config x test
go test -exec ./x
go test -toolexec=./x
go test -o x
ruff check --config x
ruff check --output-file x
less +!touch
man -P ./x ls
tar --to-command=./x -xf a
""".strip().splitlines()


@pytest.mark.parametrize("line", [*SHELL, *HIDDEN, *OPTIONS])
def test_a_way_around_a_rule_does_not_run_by_it(line: str) -> None:
    assert not runs(line)


def test_they_are_more_than_a_hundred_and_each_is_another() -> None:
    lines = [*SHELL, *HIDDEN, *OPTIONS]
    assert len(set(lines)) == len(lines) > 100


@pytest.mark.parametrize(
    "line",
    """
pytest
pytest -q
pytest -xvs tests/test_a.py::test_b
pytest -q -k 'a or b' --maxfail=2 --tb=short
pytest -q -p no:cacheprovider --durations=5
python3 -m pytest -q -n4
python -m pytest tests/test_a.py | tail -20
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
git status 2>&1 | wc -l
""".strip().splitlines(),
)
def test_what_is_harmless_runs(line: str) -> None:
    assert runs(line)


@pytest.mark.parametrize(
    "rule",
    """
git
git -c
git config
git bisect
git rebase
git difftool
git submodule
sed
awk
gawk
tar
less
man
vim
ssh
rsync
curl
wget
npx
uvx
parallel
strace
docker
gdb
sqlite3
trap
alias
hash
enable
tee
uv run
poetry run
npm exec
pnpm dlx
yarn dlx
go run
nohup
nice
time
xargs
env
command
exec
builtin
sudo
""".strip().splitlines(),
)
def test_a_beginning_behind_which_a_word_is_code_is_no_rule(rule: str) -> None:
    with pytest.raises(RuleRefused):
        AllowRules.parse_rules([f"{rule}:*"])


@pytest.mark.parametrize("line", [*OPTIONS, "cat a -o x; sort -o y", "./cat a", "pytest @x"])
def test_what_a_key_allows_for_longer_never_covers_an_option_that_acts(line: str) -> None:
    """Of such a line only the very same words are allowed again."""
    for part in read_command(line).parts:
        assert part.argv[0] in ("cat",) or known_use(part.argv) == ""


def test_of_a_line_that_is_not_plain_a_key_allows_nothing_for_longer() -> None:
    lines = [*HIDDEN, *(line for line in SHELL if read_command(line).reason)]
    assert [line for line in lines if granted_as(read_command(line), None)] == []
