"""What the docs say is compared with what the code does, where a machine can."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_crash_point_is_documented_and_none_is_made_up() -> None:
    in_code = set()
    for path in (ROOT / "src").rglob("*.cc"):
        in_code |= set(re.findall(r'reached\("([a-z_.]+)"\)', path.read_text()))
    steps = "|".join({point.split(".")[0] for point in in_code})
    text = (ROOT / "docs" / "durability.md").read_text()
    in_docs = set(re.findall(rf"`((?:{steps})\.[a-z_]+)`", text))
    assert in_docs == in_code


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def links_of(page: Path) -> list[tuple[Path, str]]:
    """File and anchor of each link to a file of ours."""
    found = re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text())
    return [((page.parent / file).resolve() if file else page, anchor) for file, anchor in found]


def anchors_of(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target.name}#{anchor}"
        for page in PAGES
        for target, anchor in links_of(page)
        if not target.exists() or (anchor and anchor not in anchors_of(target))
    ]
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            ahead += [target for target, _ in links_of(page)]
    missing = {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - reached
    assert [str(page.relative_to(ROOT)) for page in sorted(missing)] == []


# How code begins that is not marked as code.
SHOWN_AS_TEXT = r"\s*((\$ )?(stoker|make|import|from|with) |\w+ = )"


def test_every_block_of_code_is_run_by_a_test() -> None:
    """Whoever adds a page, or the first block of a language to one, has to add what runs it."""
    run_by = {
        "README.md": ("test_command_docs.py", {"sh", "python"}),
        "docs/cache.md": ("test_command_docs.py", {"sh", "python"}),
        "docs/checkpoint-commands.md": (
            "test_command_docs.py, test_torch_files.py",
            {"sh", "python"},
        ),
        "docs/checkpoints.md": ("test_checkpoint_docs.py", {"python"}),
        "docs/cpp.md": ("docs.cpp_page_runs in tests/api, tests/install", {"cpp", "cmake"}),
        "docs/data.md": ("test_data_docs.py", {"sh", "python"}),
        "docs/dcp.md": ("test_dcp_docs.py and tests/interop/frameworks", {"sh", "python"}),
        "docs/doctor.md": ("test_command_docs.py", {"sh"}),
        "docs/frameworks.md": ("tests/interop/frameworks", {"sh", "python"}),
        "docs/measuring.md": ("test_command_docs.py", {"sh", "python"}),
        "docs/migrating.md": ("test_training_docs.py", {"sh", "python"}),
        "docs/planning.md": ("test_command_docs.py", {"sh", "python"}),
        "docs/preemption.md": ("test_checkpoint_docs.py", {"python"}),
        "docs/pytorch.md": ("test_pytorch_docs.py", {"python"}),
        "docs/slurm.md": ("test_train_slurm.py", {"python"}),
        "docs/training.md": ("test_training_docs.py", {"python"}),
        "docs/tuning.md": ("test_command_docs.py and test_training_docs.py", {"sh", "python"}),
    }
    found = {}
    for page in PAGES:
        fence = r"^ *```(\w*)\n(.*?)^ *```"  # in lists, blocks are indented
        blocks = re.findall(fence, page.read_text(), re.DOTALL | re.MULTILINE)
        languages = {language for language, _ in blocks} - {"", "text", "json"}
        if languages:
            found[str(page.relative_to(ROOT))] = languages
        plain = [code for language, code in blocks if language in ("", "text")]
        assert [code for code in plain if re.match(SHOWN_AS_TEXT, code)] == []
    assert found == {name: languages for name, (_, languages) in run_by.items()}


def test_what_adding_things_names_exists() -> None:
    """Files by path or by name alone, types, members of types, and functions."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    section = text.split("\n## Adding things\n")[1].split("\n## ")[0]
    folders = ("include", "python", "src", "tests", "tools")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    names = {path.name for path in files}
    sources = [path for path in files if path.suffix in {".cc", ".cmake", ".h", ".py", ".txt"}]
    code = {path: path.read_text() for path in sources if path.name != Path(__file__).name}
    headers = [code[path] for path in code if path.suffix == ".h"]
    words = set(re.findall(r"\w+", "\n".join(code.values())))

    def is_there(name: str) -> bool:
        if re.fullmatch(r"[\w/]*\.\w+", name):
            return (ROOT / name).exists() or ("/" not in name and name in names)
        if "/" in name:
            return (ROOT / name).exists()
        type_name, _, member = name.removesuffix("()").rpartition("::")
        if not type_name:
            return member in words
        kinds = rf"\b(?:class|struct) (?:STOKER_API )?{type_name}\b[^;]*?\{{.*?^\}};"
        bodies = [b for h in headers for b in re.findall(kinds, h, re.DOTALL | re.MULTILINE)]
        return any(re.search(rf"\b{member}\b", body) for body in bodies)

    named = {
        name for name in re.findall(r"`([^`]+)`", section) if not re.search(r"[<\s]|^--|^\[", name)
    }
    assert len(named) > 60
    assert sorted(name for name in named if not is_there(name)) == []


def test_every_public_class_says_which_threads_may_use_it() -> None:
    """What holds for all of them (fork, signals, the end) is in stoker/api.h."""
    kinds = r"((?:^///.*\n)*)^class (?:\[\[nodiscard\]\] )?STOKER_API (\w+)[^;\n]*\{"
    found = {
        name: text
        for header in (ROOT / "include" / "stoker").glob("*.h")
        for text, name in re.findall(kinds, header.read_text(), re.MULTILINE)
    }
    assert len(found) > 20
    assert sorted(name for name, text in found.items() if "Thread safety:" not in text) == []


def test_every_fuzz_target_has_a_row_in_one_of_the_tables() -> None:
    targets = re.findall(r"^stoker_fuzz\((\w+) ", (ROOT / "fuzz/CMakeLists.txt").read_text(), re.M)
    done, waiting = (ROOT / "SECURITY.md").read_text().split("\nThese have not.")
    rows = [re.findall(r"^\| `(\w+_fuzz)`", part, re.MULTILINE) for part in (done, waiting)]
    assert sorted(rows[0] + rows[1]) == sorted(targets)
    counts = re.findall(r"^\| `\w+_fuzz` \|.*\| ([\d.]+) million \|$", done, re.MULTILINE)
    assert len(counts) == len(rows[0])
    assert all(float(count) >= 10 for count in counts)


def test_the_table_of_layers_is_that_of_layers_toml() -> None:
    granted = {
        layer: set(re.findall(r'"(\w+)"', names))
        for layer, names in re.findall(
            r"^(\w+)\s*= \[(.*)\]$", (ROOT / "layers.toml").read_text().split("[rooms.")[0], re.M
        )
    }
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(?:src/)?(\w+)/` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    told: dict[str, set[str]] = {}
    for layer, names in rows:
        if names == "nothing":
            told[layer] = set()
        elif names == "all of the above":
            told[layer] = set(told)
        elif names == "all but cli":
            told[layer] = set(told) - {"cli"}
        else:
            told[layer] = set(names.split(", "))
    assert told == granted
