"""A checkpoint made into a bot anybody can play: weights, an ONNX graph and a card of what it is.

    python -m training.export RUN [FOLDER] [--matches=2000] [--name=NAME] [--half]

RUN is a run's folder or its checkpoint file; FOLDER (models/<run's name> unless given) is written
whole or not at all. The ONNX graph is one file: inputs ``observation`` (B, SIZE) float32 and
``action_mask`` (B, 79) int8, both as the environment gives them, output ``policy`` (B, 79).
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

# Until the libraries are loaded, Ctrl-C ends the process without a traceback.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from safetensors.numpy import save
from torch import Tensor, nn

from judgement_env import ENV_VERSION
from judgement_env.arguments import whole
from judgement_env.bots.inputs import (
    INPUT_COLUMN,
    INPUT_STRIDE,
    INPUT_SUIT,
    MOST,
    NEEDS,
    PLAIN_SIZE,
    SUIT_MOST,
    UNSEEN_MOST,
    WIDE,
)
from judgement_env.bots.neural import (
    CARD_FILE,
    CARD_FORMAT,
    ONNX_FILE,
    WEIGHTS_FILE,
    NeuralBot,
    read_card,
)
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.bots.simple import HeuristicBot
from judgement_env.cards import NUM_ACTIONS, NUM_CARDS
from judgement_env.cli import hear_ctrl_c
from judgement_env.files import whole_folder, write_json
from judgement_env.observation import AT_GONE, AT_HAND, AT_TRUMP, SCALE, SIZE, SLICES, layout_hash
from judgement_env.rules import Rules, make_rules
from judgement_env.scoring import counted
from judgement_env.state import MAX_SEATS, Array
from training.card import WEIGHTS, check_rows, merge
from training.checkpoint import commit, load_checkpoint
from training.losses import masked_log_softmax

MEASURE_SEED = 20_000


def checkpoint_path(path: str | Path) -> Path:
    """Return the checkpoint file a run's folder or a path names."""
    path = Path(path)
    return path / "checkpoint.pt" if path.is_dir() else path


def actor_weights(checkpoint: dict[str, Any]) -> dict[str, Array]:
    """Return the averaged actor's tensors as numpy arrays."""
    return {name: tensor.numpy() for name, tensor in checkpoint["average"].items()}


def load_actor_network(path: str | Path) -> PolicyNetwork:
    """Return the averaged policy of a run or checkpoint; errors as `load_checkpoint`."""
    return PolicyNetwork(actor_weights(load_checkpoint(checkpoint_path(path))))


class ExportedPolicy(nn.Module):
    """The policy from plain observations to probabilities, canonical suits included, dense."""

    source: Tensor
    place: Tensor
    stride: Tensor
    kept: Tensor
    added: Tensor
    ranks: Tensor
    suits: Tensor
    card_suit: Tensor
    card_rank: Tensor
    bids: Tensor

    def __init__(self, weights: dict[str, Array]) -> None:
        """Take the actor's tensors."""
        super().__init__()
        depth = len(weights) // 2
        self.weights = nn.ParameterList(
            torch.from_numpy(weights[f"layers.{k}.weight"]) for k in range(depth)
        )
        self.biases = nn.ParameterList(
            torch.from_numpy(weights[f"layers.{k}.bias"]) for k in range(depth)
        )
        self._tables()

    def _tables(self) -> None:
        """Keep which observation value feeds each input when suits stand in their own order."""
        source = np.zeros(PLAIN_SIZE, np.int64)
        place = np.zeros(PLAIN_SIZE, np.int64)
        stride = np.zeros(PLAIN_SIZE, np.int64)
        for value in range(SIZE):
            if INPUT_COLUMN[value] < 0:
                continue
            suit = max(0, int(INPUT_SUIT[value]))
            column = INPUT_COLUMN[value] + suit * INPUT_STRIDE[value]
            source[column] = value - suit * INPUT_STRIDE[value]
            place[column] = suit
            stride[column] = INPUT_STRIDE[value]
        trump = int(INPUT_COLUMN[AT_TRUMP])
        kept = np.ones(PLAIN_SIZE, np.float32)
        kept[trump : trump + 4] = 0
        added = np.zeros(PLAIN_SIZE, np.float32)
        added[trump] = 1
        ranks = 8 * np.arange(13) + (1 << 16)
        for name, table in (
            ("source", source),
            ("place", place),
            ("stride", stride),
            ("kept", kept),
            ("added", added),
            ("ranks", ranks),
            ("suits", np.arange(4)),
            ("card_suit", np.arange(NUM_CARDS) // 13),
            ("card_rank", np.arange(NUM_CARDS) % 13),
            ("bids", np.arange(NUM_CARDS, NUM_ACTIONS)),
        ):
            self.register_buffer(name, torch.from_numpy(np.asarray(table)))

    def suit_places(self, observation: Tensor) -> Tensor:
        """Return the canonical place of each suit, (B, 4); see `policy.suit_places`."""
        hand = observation[:, AT_HAND : AT_HAND + NUM_CARDS]
        gone = observation[:, AT_GONE : AT_GONE + NUM_CARDS]
        held = (hand + gone).round().long().reshape(-1, 4, 13)
        trump = observation[:, AT_TRUMP : AT_TRUMP + 4].round().long()
        keys = (held * self.ranks).sum(2) + (trump << 30) + 4 - self.suits
        return (keys[:, None, :] > keys[:, :, None]).long().sum(2)

    def derived(self, observation: Tensor, places: Tensor, x: Tensor) -> Tensor:
        """Return the derived inputs (B, INPUT_SIZE - PLAIN_SIZE) as `inputs.write_inputs` does."""

        def plain(name: str) -> Tensor:
            """Return a block as whole numbers."""
            where = SLICES[name]
            return (observation[:, where] * float(SCALE[where.start])).round().long()

        def spelt(number: Tensor, size: int, least: int = 0) -> Tensor:
            """Return 1 at the place of each number (B, N), limited, (B, N * size)."""
            number = (number - least).clamp(0, size - 1)
            return (number[:, :, None] == torch.arange(size)).long().flatten(1)

        by_card = {
            name: x[:, column : column + NUM_CARDS]
            for name in ("hand", "strength")
            for column in [int(INPUT_COLUMN[SLICES[name].start])]
        }
        at_gone = int(INPUT_COLUMN[SLICES["gone"].start])
        gone_cards = x[:, at_gone : at_gone + MAX_SEATS * NUM_CARDS].round().long()
        hand = by_card["hand"].round().long()
        strength = (by_card["strength"] * 13).round().long()
        held, is_boss = hand > 0, (hand > 0) & (strength == 13)
        # What wins the trick: place of its suit, and rank + 1, 0 before the lead.
        winning, trick_rank, phase = plain("winning"), plain("trick_rank"), plain("phase")
        rank = (winning * trick_rank).sum(1, keepdim=True)
        suit = (winning * plain("trick_suit")).sum(1, keepdim=True) - 1
        place = places.gather(1, suit.clamp(min=0))
        has_trump = plain("trump")[:, :4].sum(1, keepdim=True) > 0
        is_trump = (self.card_suit == 0) & has_trump
        # Legal cards, and what they do.
        led = plain("led")
        led_place = (places * led).sum(1, keepdim=True)
        in_led = held & (self.card_suit == led_place) & (led.sum(1, keepdim=True) > 0)
        # No choice between truth values: onnxruntime has none.
        legal = (in_led | (held & ~in_led.any(1, keepdim=True))) & (phase[:, 1:] > 0)
        is_same = self.card_suit == place
        # Of two equal cards the later one takes the trick.
        higher = (is_same & (self.card_rank + 1 >= rank)) | (~is_same & is_trump)
        beats = legal & (rank > 0) & higher
        takes = legal & ((rank == 0) | higher)
        others = plain("seated").sum(1, keepdim=True) - 1
        to_come = others - (trick_rank > 0).sum(1, keepdim=True)
        packs, suits, ranks = (plain("rules")[:, k : k + 1] for k in (0, 5, 6))
        gone = observation[:, SLICES["gone"]].round().long().reshape(-1, MAX_SEATS, 4, 13)
        seen = gone.sum((1, 3)) + plain("hand").reshape(-1, 4, 13).sum(2)
        seen = seen + plain("trump")[:, :4] * (plain("turn_up") > 0)
        unseen = (packs * ranks - seen).clamp(min=0) * (self.suits >= 4 - suits)
        trumps = (unseen * plain("trump")[:, :4]).sum(1, keepdim=True)
        turned = is_trump & (self.card_rank + 1 == plain("turn_up"))
        copies = hand + gone_cards.reshape(-1, MAX_SEATS, NUM_CARDS).sum(1) + turned
        is_last_copy = (packs == 1) | (copies == 2)
        safe = (to_come == 0) | (is_boss & is_last_copy & (is_trump | (trumps == 0)))

        def first(flags: Tensor, from_below: bool = True) -> Tensor:
            """Return the lowest card of each suit among those flagged, or the highest."""
            by_rank = flags.long().reshape(-1, 4, 13)
            counted = by_rank.cumsum(2)
            if not from_below:
                counted = counted[:, :, -1:] - counted + by_rank
            return (by_rank * (counted == 1)).flatten(1)

        def at_places(number: Tensor) -> Tensor:
            """Return what stands by suit (B, 4) in canonical order."""
            is_there = places[:, None, :] == self.suits[:, None]
            return (is_there * number[:, None, :]).sum(2)

        left, cards, bid_sum = plain("tricks_left"), plain("cards"), plain("bid_sum")
        is_known, is_lost, need = plain("bid_made"), plain("lost"), plain("need")
        is_open = is_known[:, :1] * (1 - is_lost[:, :1])
        kind = torch.where(is_lost > 0, 0, 1 + need.clamp(max=NEEDS - 2))[:, 1:]
        wanted = (is_known * (1 - is_lost) * need).sum(1, keepdim=True)
        forbidden = plain("forbidden_bid")
        lengths = hand.reshape(-1, 4, 13).sum(2)
        parts = [
            *((held & (strength == value)).long() for value in (13, 12, 11)),
            beats.long(),
            (takes & safe).long(),
            first(legal & ~takes, from_below=False),
            first(beats),
            first(legal),
            first(legal, from_below=False),
            spelt(need[:, :1], MOST + 1) * is_open,
            spelt(left - need[:, :1], MOST + 1) * is_open,
            spelt(kind, NEEDS) * is_known[:, 1:].repeat_interleave(NEEDS, 1),
            spelt(cards, MOST + 1),
            spelt(left, MOST + 1),
            spelt(cards - bid_sum, 2 * WIDE + 1, -WIDE),
            spelt(left - wanted, 2 * WIDE + 1, -WIDE) * phase[:, 1:],
            spelt(forbidden - 1, MOST + 2) * (forbidden > 0),
            spelt(others - is_known.sum(1, keepdim=True), MAX_SEATS) * phase[:, :1],
            spelt(to_come, MAX_SEATS) * phase[:, 1:],
            spelt(lengths, SUIT_MOST + 1),
            spelt(at_places(unseen), UNSEEN_MOST + 1),
            spelt((hand * is_boss).sum(1, keepdim=True), SUIT_MOST + 1),
            spelt((hand * (is_boss & is_trump)).sum(1, keepdim=True), SUIT_MOST + 1),
        ]
        return torch.cat(parts, dim=1).to(x.dtype)

    def forward(self, observation: Tensor, action_mask: Tensor) -> Tensor:
        """Return probabilities over the legal actions, (B, 79)."""
        places = self.suit_places(observation)
        is_there = (places[:, None, :] == self.suits[:, None]).long()
        suit_at = (is_there * self.suits).sum(2)
        index = self.source + self.stride * suit_at[:, self.place]
        trump = observation[:, AT_TRUMP : AT_TRUMP + 4].sum(1, keepdim=True)
        x = observation.gather(1, index) * self.kept + trump * self.added
        x = torch.cat([x, self.derived(observation, places, x)], dim=1)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = x @ weight + bias
            if k < last:
                x = torch.relu(x)
        cards = places[:, self.card_suit] * 13 + self.card_rank
        back = torch.cat([cards, self.bids.expand(cards.shape[0], -1)], dim=1)
        return masked_log_softmax(x.gather(1, back), action_mask).exp()


def halve(model: Any) -> None:
    """Keep the matrices of an ONNX model in half precision, and cast them when it runs."""
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.dims) == 2:
            name = tensor.name
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, f"{name}_half"))
            casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    for cast in reversed(casts):
        model.graph.node.insert(0, cast)


def write_onnx(policy: ExportedPolicy, path: Path, is_half: bool = False) -> None:
    """Write the policy as one ONNX file without traces of where it was made."""
    import onnx

    batch = torch.export.Dim("batch")
    example = (torch.zeros(2, SIZE), torch.ones(2, NUM_ACTIONS, dtype=torch.int8))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            policy.eval(),
            example,
            str(path),
            input_names=["observation", "action_mask"],
            output_names=["policy"],
            dynamic_shapes={"observation": {0: batch}, "action_mask": {0: batch}},
            external_data=False,
            dynamo=True,
            verbose=False,
        )
    model = onnx.load(str(path))
    for part in (model, model.graph, *model.graph.node, *model.graph.value_info):
        del part.metadata_props[:]
        part.doc_string = ""
    if is_half:
        halve(model)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def measure(bot: NeuralBot, rules: Rules, matches: int) -> list[dict[str, Any]]:
    """Return the bot's figures alone against three (or as many as there are) rule bots."""
    from judgement_env.arena import one_versus_field

    row = one_versus_field(bot, HeuristicBot(), rules, matches, MEASURE_SEED)
    return [{**row.to_dict(), "seed": MEASURE_SEED}]


def make_card(
    checkpoint: dict[str, Any], name: str, weights: dict[str, Array], folder: Path
) -> dict[str, Any]:
    """Return what the folder's model is, its measured figures still missing."""
    config = checkpoint["config"]
    given = config["rules"] if isinstance(config["rules"], list) else [config["rules"]]
    options = {k: v for k, v in config.items() if k not in ("name", "rules")}
    return {
        "format": CARD_FORMAT,
        "name": name,
        "rules": list({made.hash: made.to_dict() for made in map(make_rules, given)}.values()),
        "env_version": ENV_VERSION,
        "layout_hash": layout_hash(),
        "observation_size": SIZE,
        "num_actions": NUM_ACTIONS,
        "parameters": int(sum(tensor.size for tensor in weights.values())),
        WEIGHTS: hashlib.sha256((folder / WEIGHTS_FILE).read_bytes()).hexdigest(),
        "onnx_sha256": hashlib.sha256((folder / ONNX_FILE).read_bytes()).hexdigest(),
        "training": {
            "command": checkpoint.get("command", ""),
            "config": options,
            "decisions": checkpoint["decisions"],
            "minutes": round(checkpoint["seconds"] / 60, 1),
            "workers": checkpoint["workers"],
            "commit": checkpoint.get("commit") or commit(),
        },
        "measured": [],
    }


def export(
    run: str | Path,
    folder: str | Path,
    matches: int = 2000,
    name: str = "",
    is_half: bool = False,
) -> Path:
    """Write the model folder of a run's averaged policy and return it.

    matches: played against three rule bots for the card; 0 leaves the card without figures.
    is_half: round the weights to half precision (float16), for files half as large.
    Raises FileNotFoundError or ValueError for a checkpoint that is missing or not whole, OSError
    where the folder cannot be written; what stood there before stays in that case. A folder that
    holds anything but a model is refused, for it would be lost.
    """
    checkpoint = load_checkpoint(checkpoint_path(run))
    return write_model(actor_weights(checkpoint), checkpoint, folder, matches, name, is_half)


def write_model(
    weights: dict[str, Array],
    checkpoint: dict[str, Any],
    folder: str | Path,
    matches: int = 2000,
    name: str = "",
    is_half: bool = False,
) -> Path:
    """Write the model folder of these weights and return it; `checkpoint` says what they are.

    Of the checkpoint the card takes config, command, decisions, seconds, workers and commit.
    Figures that stood in the card of a model of the same weights stay.
    """
    PolicyNetwork(weights)
    if is_half:
        with np.errstate(over="ignore"):
            weights = {key: tensor.astype(np.float16) for key, tensor in weights.items()}
    for key, tensor in weights.items():
        if not np.isfinite(tensor).all():
            half = ", or half precision is too small for it" if is_half else ""
            raise ValueError(f"weights: {key} is not finite: the training diverged{half}")
    folder = Path(folder).absolute()
    if folder.exists() and not (folder / CARD_FILE).is_file():
        if not folder.is_dir() or any(folder.iterdir()):
            raise ValueError(f"{folder}: holds something else than a model; choose another folder")
    before = figures_of(folder)
    with whole_folder(folder) as part:
        (part / WEIGHTS_FILE).write_bytes(save(weights))
        whole = {key: tensor.astype(np.float32) for key, tensor in weights.items()}
        write_onnx(ExportedPolicy(whole), part / ONNX_FILE, is_half)
        for file in (WEIGHTS_FILE, ONNX_FILE):
            (part / file).chmod(0o644)
        card = make_card(checkpoint, name or folder.name, weights, part)
        write_card(part, card)  # for the bot that is measured
        if before.get(WEIGHTS) == card[WEIGHTS]:
            card["measured"] = before["measured"]
        if matches:
            new = measure(NeuralBot(part), make_rules(card["rules"][0]), matches)
            merge(card["measured"], new, card["rules"])
        write_card(part, card)
    return folder


def figures_of(folder: Path) -> dict[str, Any]:
    """Return the card of a model with its rows; {} where there is none, or one that is broken."""
    try:
        card: dict[str, Any] = {"measured": [], **read_card(folder)}
        check_rows(card)
    except (AttributeError, LookupError, OSError, TypeError, ValueError):
        return {}
    return card


def write_card(folder: Path, card: dict[str, Any]) -> None:
    """Write the card of a model folder."""
    write_json(folder / CARD_FILE, card)


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    import argparse

    from judgement_env.arena import MAX_MATCHES

    hear_ctrl_c()
    parser = argparse.ArgumentParser(prog="python -m training.export", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", help="a run's folder, or a checkpoint file")
    parser.add_argument("folder", nargs="?", help="where to write; models/<run's name> if left out")
    parser.add_argument(
        "--matches", type=int, default=2000, help="to measure for the card; 0: none"
    )
    parser.add_argument("--name", default="", help="the bot's name; that of the folder if left out")
    parser.add_argument("--half", action="store_true", help="weights in half precision (float16)")
    options = parser.parse_args(arguments)
    name = Path(options.run).resolve()
    default = Path("models") / (name if name.is_dir() else name.parent).name
    try:
        matches = whole("--matches", options.matches, 0, MAX_MATCHES)
        target = Path(options.folder or default)
        before = figures_of(target)
        folder = export(options.run, target, matches, options.name, options.half)
    except (ValueError, OSError) as error:
        print(f"training.export: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("training.export: interrupted; what stood there is untouched", file=sys.stderr)
        return 130
    gone = [row for row in before.get("measured", []) if "command" in row]
    if gone and before[WEIGHTS] != figures_of(folder).get(WEIGHTS):
        say = f"{counted(len(gone), 'figure')} of the model that stood there went with it"
        print(f"training.export: {say}", file=sys.stderr)
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
