"""The shape of the tree: who may import whom, what README's map says, what no file may name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent

# A module imports only from modules that stand before it. A new module takes its place here.
LAYERS = (
    "judgement_env._jit",
    "judgement_env._lanes",
    "judgement_env.cards",
    "judgement_env.files",
    "judgement_env.scoring",
    "judgement_env.rules",
    "judgement_env.state",
    "judgement_env.arguments",
    "judgement_env.engine",
    "judgement_env.observation",
    "judgement_env.sampler",
    "judgement_env.record",
    "judgement_env.deals",
    "judgement_env.view",
    "judgement_env.table",
    "judgement_env.render",
    "judgement_env.bots.base",
    "judgement_env.bots.rule_player",
    "judgement_env.bots.trick_inputs",
    "judgement_env.bots.sharp_player",
    "judgement_env.bots.simple",
    "judgement_env.bots.last_tricks",
    "judgement_env.bots.beliefs",
    "judgement_env.bots.search",
    "judgement_env.bots.ismcts",
    "judgement_env.bots.inputs",
    "judgement_env.bots.policy",
    "judgement_env.bots.neural",
    "judgement_env.bots.rollouts",
    "judgement_env.bots.net_search",
    "judgement_env.bots.process",
    "judgement_env.bots",
    "judgement_env.batch_play",
    "judgement_env.batch",
    "judgement_env.judgement_v0",
    "judgement_env.seat_play",
    "judgement_env.seat_batch",
    "judgement_env.gym_env",
    "judgement_env.worlds",
    "judgement_env.game_tree",
    "judgement_env.integrations",
    "judgement_env.integrations.openspiel",
    "judgement_env.integrations.rllib",
    "judgement_env.integrations.sb3",
    "judgement_env.integrations.tianshou",
    "judgement_env.integrations.torchrl",
    "judgement_env.arena_result",
    "judgement_env.arena_play",
    "judgement_env.arena",
    "judgement_env.ratings",
    "judgement_env.ladder_result",
    "judgement_env.ladder",
    "judgement_env.contract",
    "judgement_env.batch_contract",
    "judgement_env.gym_contract",
    "judgement_env.env_contract",
    "judgement_env.bot_contract",
    "judgement_env.testing",
    "judgement_env.dataset",
    "judgement_env.playouts",
    "judgement_env.progress",
    "judgement_env.blunders",
    "judgement_env.bench_clock",
    "judgement_env.bench_peers",
    "judgement_env.bench_sb3",
    "judgement_env.bench_rows",
    "judgement_env.bench",
    "judgement_env.rule_options",
    "judgement_env.bid_counts",
    "judgement_env.narrate",
    "judgement_env.prompts",
    "judgement_env.play",
    "judgement_env.replay",
    "judgement_env.arena_command",
    "judgement_env.serve",
    "judgement_env.cli",
    "training.config",
    "training.card",
    "training.checkpoint",
    "training.model",
    "training.rows",
    "training.rare_deals",
    "training.objective",
    "training.branches",
    "training.rollout",
    "training.losses",
    "training.adam",
    "training.kernels",
    "training.loss_kernels",
    "training.targets",
    "training.learner",
    "training.update",
    "training.log",
    "training.program",
    "training.train",
    "training.export",
    "training.evaluate",
    "training.exploit",
    "training.measure",
    "training.fit_tricks",
    "training.sb3_ppo",
    "training.bench",
)
PACKAGES = ("judgement_env", "training")
# Plain numbers that the package itself holds, so that every module may take them from there.
OF_THE_PACKAGE = {"ENV_VERSION", "MODELS_SINCE", "__version__"}

# Libraries of the extras, and the one module that may import each at its top.
ADAPTERS: dict[str, set[str]] = {
    "onnxruntime": {"judgement_env.bots.neural"},
    "pyspiel": {"judgement_env.integrations.openspiel"},
    "openskill": {"judgement_env.ratings"},
    "open_spiel": {"judgement_env.integrations.openspiel"},
    "stable_baselines3": {"judgement_env.integrations.sb3"},
    "sb3_contrib": {"judgement_env.integrations.sb3"},
    "ray": {"judgement_env.integrations.rllib"},
    "torchrl": {"judgement_env.integrations.torchrl"},
    "tensordict": {"judgement_env.integrations.torchrl"},
    "tianshou": {"judgement_env.integrations.tianshou"},
    "torch": {
        "judgement_env.integrations.rllib",
        "judgement_env.integrations.sb3",
        "judgement_env.integrations.torchrl",
        "judgement_env.integrations.tianshou",
    },
    "onnx": set(),
    "onnxscript": set(),
    "rich": set(),
    "tensorboard": set(),
}

# Written so that no pattern matches its own text.
FORBIDDEN = {
    "a path of one machine": rb"(?<![\w.$}>-])/(?:work|root|home|tmp|opt|Users)/[\w.-]",
    "a registry's host": rb"pythonhosted\.org|pypi\.org|registry\.npmjs|deb\.debian\.org",
    "a local index": rb"file:[/]{3}",
}


def tracked_files() -> list[str]:
    """Paths that git tracks or would add, or skip the test where the tree is no checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("the tree is not a git checkout, so it has no list of tracked files")
    names = sorted({name for name in listing.decode().split("\0") if name})
    return [name for name in names if (ROOT / name).is_file()]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(tree: ast.AST, *, top_only: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements; `top_only` leaves out those in functions and those for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif top_only and is_type_checking(node):
            continue
        else:
            yield from statements(node, top_only=top_only)


def imported(path: Path, *, top_only: bool) -> set[str]:
    """Modules that a file imports by full name; `from package import name` gives `package.name`."""
    package = module_name(path)
    if path.name != "__init__.py":
        package = package.rpartition(".")[0]
    names: set[str] = set()
    for node in statements(ast.parse(path.read_text(encoding="utf-8")), top_only=top_only):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
            continue
        base = node.module or ""
        if node.level:
            parents = package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
        names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def layer_of(name: str) -> int | None:
    """Place of the layer that holds `name`, a module or something in it; None for no layer."""
    while name:
        if name in LAYERS:
            return LAYERS.index(name)
        name = name.rpartition(".")[0]
    return None


MODULES = [path for package in PACKAGES for path in package_modules(package)]


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_imports_only_from_modules_above_it(path: Path) -> None:
    name = module_name(path)
    if name in PACKAGES:
        return
    own = layer_of(name)
    assert own is not None, f"{name} has no place in LAYERS"
    for target in sorted(imported(path, top_only=False)):
        package, _, last = target.rpartition(".")
        if target.split(".")[0] == "tests":
            pytest.fail(f"{name} imports {target}, which is not shipped")
        if target.split(".")[0] not in PACKAGES:
            continue
        if package == "judgement_env" and last in OF_THE_PACKAGE:
            continue
        layer = layer_of(target)
        assert layer is not None, f"{name} imports {target}: name the module that holds it"
        is_sibling = layer == own and LAYERS[own] != name
        assert layer < own or is_sibling, f"{name} imports {target}, which stands below it"


@pytest.mark.parametrize("path", package_modules("judgement_env"), ids=module_name)
def test_an_optional_library_is_imported_at_the_top_of_its_adapter_only(path: Path) -> None:
    name = module_name(path)
    for target in imported(path, top_only=True):
        adapters = ADAPTERS.get(target.split(".")[0])
        assert adapters is None or name in adapters, f"{name} imports {target} at its top"


def test_all_but_the_adapters_can_be_imported_without_any_optional_library() -> None:
    adapters = set().union(*ADAPTERS.values())
    modules = {module_name(path) for path in package_modules("judgement_env")} - adapters
    program = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(ADAPTERS)!r}))\n"
        f"for name in {sorted(modules)!r}:\n"
        "    importlib.import_module(name)\n"
        "import judgement_env\n"
        "for name in judgement_env.__all__:\n"
        "    getattr(judgement_env, name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_grows_past_600_lines(package: str) -> None:
    lengths = {
        module_name(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in package_modules(package)
    }
    assert lengths, f"{package} has no modules"
    assert {name: n for name, n in lengths.items() if n > 600} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_module_opens_with_a_docstring_of_at_most_ten_lines(package: str) -> None:
    for path in package_modules(package):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert text is not None, f"{module_name(path)} has no docstring"
        length = len(text.splitlines())
        # The loop's docstring is also where every logged metric is defined.
        limit = 40 if module_name(path) == "training.train" else 10
        assert length <= limit, f"{module_name(path)}'s docstring has {length} lines"


def readme_map() -> set[str]:
    """Paths in the fenced block under README's heading "Layout".

    One path a line, the entries of a folder indented under it by two or four spaces; a folder ends
    with a slash, and what stands after two spaces is a description.
    """
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^#+ Layout\n(.*?)^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    assert section is not None, 'README.md has no fenced block under a heading "Layout"'
    paths: set[str] = set()
    folders: list[tuple[int, str]] = []
    for line in filter(str.strip, section[2].splitlines()):
        indent = len(line) - len(line.lstrip())
        entry = re.split(r"\s{2,}", line.strip())[0]
        while folders and folders[-1][0] >= indent:
            folders.pop()
        path = (folders[-1][1] if folders else "") + entry
        paths.add(path)
        if entry.endswith("/"):
            folders.append((indent, path))
    return paths


def parents(name: str) -> Iterator[str]:
    parts = name.split("/")
    for depth in range(1, len(parts)):
        yield "/".join(parts[:depth]) + "/"


def test_readme_maps_the_tree_as_it_is() -> None:
    names = tracked_files()
    real = set(names) | {folder for name in names for folder in parents(name)}
    required = {name for name in real if "/" not in name.rstrip("/") and not name.startswith(".")}
    for name in names:
        if name.startswith(("judgement_env/", "training/")) and name.endswith(".py"):
            required |= {name, *parents(name)}
    required = {name for name in required if not name.endswith("/__init__.py")}
    shown = readme_map()
    assert required - shown == set(), "missing from README's map"
    assert shown - real == set(), "in README's map, but not in the tree"


def test_no_file_names_a_machine_path_or_a_registry() -> None:
    found = []
    for name in tracked_files():
        content = (ROOT / name).read_bytes()
        for what, pattern in FORBIDDEN.items():
            if hit := re.search(pattern, content):
                line = content.count(b"\n", 0, hit.start()) + 1
                found.append(f"{name}:{line} names {what}: {hit[0]!r}")
    assert found == []


def pinned(name: str) -> dict[str, str]:
    """Versions in a file of tested versions, by library."""
    pins = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            library, _, version = line.partition("==")
            pins[canonicalize_name(library)] = version
    return pins


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-rllib.txt"])
def test_the_tested_versions_name_every_dependency_within_its_range(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    # RLlib demands an older gymnasium, so its versions stand apart, with what it is tested with.
    alone = extras.pop("rllib")
    wanted = [*project["dependencies"], *(alone if "rllib" in name else sum(extras.values(), []))]
    pins = pinned(name)
    for requirement in map(Requirement, wanted):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{name} names no version of {requirement.name}"
        assert requirement.specifier.contains(version), f"{version} is not in {requirement}"
