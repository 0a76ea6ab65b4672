"""Actor and critic in torch: multilayer perceptrons over inputs held as indices and values.

A GPU runs them as they stand, dense. On the CPU `training.kernels` does the same on parameters it
shares with them (`training.learner`), and the tests compare the two. Weights are (inputs,
outputs), as `PolicyNetwork` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from judgement_env.bots.inputs import CRITIC_SIZE, INPUT_SIZE
from judgement_env.bots.neural import read_card, read_weights
from judgement_env.bots.policy import dense_inputs, with_derived
from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array
from training.checkpoint import load_checkpoint
from training.config import Config


class Layer(nn.Module):
    """Weights (inputs, outputs) and bias of one layer."""

    def __init__(self, inputs: int, outputs: int, gain: float) -> None:
        """Draw orthogonal weights of the given gain."""
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.orthogonal_(self.weight, gain)


class Network(nn.Module):
    """A multilayer perceptron over sparse inputs."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, last_gain: float) -> None:
        """Build layers of the given widths; the last one starts with weights of `last_gain`."""
        super().__init__()
        widths = [inputs, *hidden, outputs]
        gains = [2**0.5] * len(hidden) + [last_gain]
        self.layers = nn.ModuleList(
            Layer(a, b, gain) for a, b, gain in zip(widths, widths[1:], gains, strict=False)
        )

    def stack(self) -> list[Layer]:
        """Return the layers in order."""
        return [cast(Layer, layer) for layer in self.layers]

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.stack()[0].weight.device

    def forward(self, index: Array, value: Array, count: Array, rows: Array) -> Tensor:
        """Return the outputs (B, outputs) of the chosen rows."""
        first, *others = self.stack()
        dense = np.zeros((len(rows), first.weight.shape[0]), np.float32)
        dense_inputs(index, value, count, rows, dense)
        x = torch.from_numpy(dense).to(self.device) @ first.weight + first.bias
        for layer in others:
            x = torch.addmm(layer.bias, torch.relu(x), layer.weight)
        return x


def make_actor(hidden: Sequence[int]) -> Network:
    """Return a policy network: logits of the 79 actions; starts nearly uniform."""
    return Network(INPUT_SIZE, hidden, NUM_ACTIONS, 0.01)


def make_critic(hidden: Sequence[int]) -> Network:
    """Return a value network that also sees every hand; for training only."""
    return Network(CRITIC_SIZE, hidden, 1, 1.0)


def load_weights(network: Network, weights: dict[str, Tensor], name: str) -> None:
    """Give a network the weights `name` of a checkpoint; ValueError where they do not fit it."""
    wanted = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
    found = {key: tuple(tensor.shape) for key, tensor in weights.items()}
    for key in sorted({*wanted, *found}):
        if wanted.get(key) != found.get(key):
            raise ValueError(
                f"{name}: {key} has shape {found.get(key)} in the checkpoint, {wanted.get(key)}"
                " here: the run was made by another version of the package; train again or install"
                " that version"
            )
    network.load_state_dict(weights)


def actor_of_model(folder: str | Path) -> Network:
    """Return the policy network of a model folder, on the CPU.

    Raises FileNotFoundError or ValueError saying what is missing, damaged or does not fit.
    """
    weights = read_weights(Path(folder), read_card(Path(folder)))
    weights["layers.0.weight"] = with_derived(weights["layers.0.weight"])
    widths = [len(weights[f"layers.{k}.bias"]) for k in range(len(weights) // 2)]
    actor = make_actor(widths[:-1])
    actor.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return actor


def first_networks(config: Config, resume: bool) -> tuple[Network, Network]:
    """Return the actor and the critic a run begins with.

    Random weights, or the policy of the model it starts from, or both networks of the run it starts
    from. A resumed run has weights of its own to take next and needs neither any longer.
    """
    torch.manual_seed(config.seed)
    actor, critic = make_actor(config.hidden), make_critic(config.critic_hidden)
    start = config.start
    given: list[tuple[str, Network, dict[str, Tensor]]] = []
    if start and not resume:
        if (Path(start) / "checkpoint.pt").is_file():
            saved = load_checkpoint(Path(start) / "checkpoint.pt")
            given = [
                ("hidden", actor, saved["average"]),
                ("critic_hidden", critic, saved["critic"]),
            ]
        else:
            try:
                given.append(("hidden", actor, actor_of_model(start).state_dict()))
            except FileNotFoundError as error:
                raise FileNotFoundError(f"start: {error} (allowed: a run or a model)") from None
    for field, network, weights in given:
        widths = tuple(len(weights[f"layers.{k}.bias"]) for k in range(len(weights) // 2 - 1))
        wanted = getattr(config, field)
        if widths != wanted:
            raise ValueError(f"start: {start} has layers of {widths}, {field} {wanted}")
        load_weights(network, weights, start)
    return actor.to(config.device), critic.to(config.device)
