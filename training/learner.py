"""Who learns: actor and critic with their optimiser, on the CPU as kernels, elsewhere as torch.

`KernelLearner` works in compiled kernels on parameters that the torch modules share, so that
whatever reads or writes these keeps working. `TorchLearner` is the same in torch: what a GPU runs,
and what the kernels are tested against. Gradients are added up in the workers' order, so a run is
the same whenever it is repeated with as many workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from judgement_env.cards import NUM_ACTIONS
from judgement_env.state import Array
from training.adam import EPSILON, adam_step, sum_gradients
from training.config import Config
from training.kernels import outputs
from training.loss_kernels import IMITATED, TAKEN, TRIED, actor_gradients, critic_gradients
from training.losses import (
    ILLEGAL,
    all_action_loss,
    imitation_loss,
    policy_loss,
    value_loss,
)
from training.model import Network
from training.rows import LogitsOf, Rows
from training.targets import Targets

# Rows of one pass of torch: so many fit the cache (1.3 times as fast as 4,096).
CHUNK = 1024
METRICS = ("loss_policy", "loss_value", "entropy", "divergence", "clipped")
NO_ROWS = np.zeros((0, NUM_ACTIONS), np.float32)
EVERY_OUTPUT = np.zeros((0, 1), np.int8)

# A worker's targets, and which of their rows it is to work on.
Job = tuple[Targets, Array]


class Learner(Protocol):
    """What `training.train` asks of a learner."""

    def logits_of(self, rows: Rows, which: Array) -> Array:
        """Return the actor's logits (B, 79) of the chosen rows, right for legal actions only."""

    def values_of(self, rows: Rows) -> Array:
        """Return the critic's value of every row, (R,) float32."""

    def step(
        self, pool: ThreadPoolExecutor, jobs: Sequence[Job], entropy: float, rate: float
    ) -> Array:
        """Make one step of the optimiser on all jobs' rows; return the sums of METRICS."""

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's state, in the form of `torch.optim.Adam`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""


def make_learner(actor: Network, critic: Network, config: Config) -> Learner:
    """Return the learner for the device the networks are on."""
    kind = KernelLearner if actor.device.type == "cpu" else TorchLearner
    return kind(actor, critic, config)


def logits_of(network: Network) -> LogitsOf:
    """Return the function that gives the logits of a network whose shape stays as it is."""
    if network.device.type == "cpu":
        return Perceptron(network).logits

    @torch.no_grad()
    def logits(rows: Rows, which: Array) -> Array:
        out: Array = network(rows.column, rows.value, rows.num_actor, which).cpu().numpy()
        return out

    return logits


# --- kernels ----------------------------------------------------------------------------------


class Perceptron:
    """A network on the CPU for the kernels: its parameters in one array, shared by the module."""

    def __init__(self, network: Network) -> None:
        """Move the parameters into one array."""
        layers = network.stack()
        self.parameters = list(network.parameters())
        sizes = [len(layers[0].weight), *(len(layer.bias) for layer in layers)]
        self.widths = np.array(sizes, np.int64)
        self.params = np.concatenate([p.detach().numpy().ravel() for p in self.parameters])
        for parameter, part in zip(self.parameters, self.parts(self.params), strict=True):
            parameter.data = part

    def parts(self, flat: Array) -> list[Tensor]:
        """Return views of an array as long as the parameters, in their shapes."""
        ends = np.cumsum([p.numel() for p in self.parameters])
        parts = zip(np.split(flat, ends[:-1]), self.parameters, strict=True)
        return [torch.from_numpy(part.reshape(tuple(p.shape))) for part, p in parts]

    def logits(self, rows: Rows, which: Array) -> Array:
        """Return the logits (B, 79) of the chosen rows; illegal actions have next to no chance."""
        out = np.full((len(which), NUM_ACTIONS), ILLEGAL, np.float32)
        inputs = (rows.column, rows.value, rows.num_actor, rows.mask)
        outputs(self.widths, self.params, *inputs, which, out)
        return out

    def values(self, rows: Rows) -> Array:
        """Return the one output of every row, (R,) float32, of all that a critic sees."""
        out = np.empty((len(rows.action), 1), np.float32)
        inputs = (rows.column, rows.value, rows.num_critic, EVERY_OUTPUT)
        outputs(self.widths, self.params, *inputs, np.arange(len(out)), out)
        return out[:, 0]


class Adam:
    """A perceptron's gradients, one array a worker, and what Adam keeps of the former ones."""

    def __init__(self, network: Perceptron, workers: int) -> None:
        """Begin with nothing."""
        self.network = network
        size = len(network.params)
        self.grads = np.zeros((workers, size), np.float32)
        self.mean, self.square = np.zeros((2, size), np.float32)
        self.steps = 0
        # Each worker's share of the parameters.
        self.bounds = np.linspace(0, size, workers + 1).astype(np.int64)

    def sum(self, worker: int) -> float:
        """Add up all workers' gradients of a worker's share; return the sum of their squares."""
        start, stop = self.bounds[worker : worker + 2]
        return sum_gradients(self.grads, start, stop)

    def step(self, worker: int, scale: float, rate: float) -> None:
        """Make step number `steps` of a worker's share with `scale` times the gradients' sum."""
        state = (self.network.params, self.grads[0], self.mean, self.square)
        start, stop = self.bounds[worker : worker + 2]
        adam_step(*state, start, stop, scale, self.steps, rate)

    def write_state(self, state: dict[Tensor, Any]) -> None:
        """Write the state of each parameter as `torch.optim.Adam` has it."""
        mean, square = (self.network.parts(kept.copy()) for kept in (self.mean, self.square))
        for p, m, v in zip(self.network.parameters, mean, square, strict=True):
            state[p] = {"step": torch.tensor(float(self.steps)), "exp_avg": m, "exp_avg_sq": v}

    def read_state(self, state: dict[Tensor, Any]) -> None:
        """Take over what `write_state` wrote."""
        mean, square = (self.network.parts(kept) for kept in (self.mean, self.square))
        for p, m, v in zip(self.network.parameters, mean, square, strict=True):
            m.copy_(state[p]["exp_avg"])
            v.copy_(state[p]["exp_avg_sq"])
            self.steps = int(state[p]["step"])


class KernelLearner:
    """Actor and critic on the CPU."""

    def __init__(self, actor: Network, critic: Network, config: Config) -> None:
        """Move the networks' parameters into arrays that they share with the kernels."""
        self.config = config
        self.actor, self.critic = Perceptron(actor), Perceptron(critic)
        self.adams = [Adam(network, config.workers) for network in (self.actor, self.critic)]
        self.logits_of = self.actor.logits
        self.values_of = self.critic.values

    def step(
        self, pool: ThreadPoolExecutor, jobs: Sequence[Job], entropy: float, rate: float
    ) -> Array:
        """Make one step of the optimiser on all jobs' rows; return the sums of METRICS."""
        size = sum(len(which) for _, which in jobs)
        # No round of a small batch was settled: nothing to learn, and nothing to divide by.
        if not size:
            return np.zeros(len(METRICS))
        workers = range(len(jobs))
        metrics = list(pool.map(lambda k: self.add_gradients(k, *jobs[k], entropy), workers))
        # Where all actions were played out the critic has nothing to learn.
        adams = self.adams[: 1 if jobs[0][0].log_chances is not None else 2]
        squares = pool.map(lambda k: [adam.sum(k) for adam in adams], workers)
        norms = np.sqrt(np.sum(list(squares), axis=0)) / size
        scales = np.minimum(1, self.config.max_gradient / (norms + 1e-6)) / size
        for adam in adams:
            adam.steps += 1

        def move(worker: int) -> None:
            for adam, scale in zip(adams, scales, strict=True):
                adam.step(worker, scale, rate)

        list(pool.map(move, workers))
        total: Array = np.sum(metrics, axis=0)
        return total

    def add_gradients(self, worker: int, targets: Targets, which: Array, entropy: float) -> Array:
        """Add the gradients of a worker's rows to its arrays; return the sums of METRICS."""
        rows, config, metrics = targets.rows, self.config, np.zeros(4)
        inputs, loss_value = (rows.column, rows.value), 0.0
        kind, log_chances = TAKEN, NO_ROWS
        advantage, advantages = targets.advantage, NO_ROWS
        if targets.log_chances is not None:
            kind, log_chances = TRIED, targets.log_chances
            advantage, advantages = targets.returns, advantage
        elif targets.is_imitating:
            kind = IMITATED
        grads = [adam.grads[worker] for adam in self.adams]
        actor_gradients(
            self.actor.widths,
            self.actor.params,
            grads[0],
            *inputs,
            rows.num_actor,
            rows.mask,
            which,
            kind,
            rows.action,
            rows.log_chance,
            advantage,
            log_chances,
            advantages,
            config.clip,
            entropy,
            metrics,
        )
        if kind != TRIED:
            loss_value = critic_gradients(
                self.critic.widths,
                self.critic.params,
                grads[1],
                *inputs,
                rows.num_critic,
                which,
                targets.returns,
                config.value_weight,
            )
        return np.array([metrics[0], loss_value, *metrics[1:]])

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's state, in the form of `torch.optim.Adam`."""
        optimiser = make_optimiser([*self.actor.parameters, *self.critic.parameters])
        for adam in self.adams:
            if adam.steps:
                adam.write_state(optimiser.state)
        return optimiser.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        optimiser = make_optimiser([*self.actor.parameters, *self.critic.parameters])
        optimiser.load_state_dict(state)
        for adam in self.adams:
            if optimiser.state[adam.network.parameters[0]]:
                adam.read_state(optimiser.state)


# --- torch ------------------------------------------------------------------------------------


def make_optimiser(parameters: list[nn.Parameter]) -> torch.optim.Adam:
    """Return torch's Adam; fused steps take a quarter of the time."""
    return torch.optim.Adam(parameters, eps=EPSILON, fused=True)


class TorchLearner:
    """Actor and critic wherever they are."""

    def __init__(self, actor: Network, critic: Network, config: Config) -> None:
        """Make their optimiser."""
        self.actor, self.critic, self.config = actor, critic, config
        self.optimiser = make_optimiser([*actor.parameters(), *critic.parameters()])
        self.state_dict = self.optimiser.state_dict
        self.load_state_dict = self.optimiser.load_state_dict

    @torch.no_grad()
    def logits_of(self, rows: Rows, which: Array) -> Array:
        """Return the actor's logits (B, 79) of the chosen rows."""
        out: Array = self.actor(rows.column, rows.value, rows.num_actor, which).cpu().numpy()
        return out

    @torch.no_grad()
    def values_of(self, rows: Rows) -> Array:
        """Return the critic's value of every row, (R,) float32."""
        size = len(rows.action)
        chunks = [np.arange(a, min(a + CHUNK, size)) for a in range(0, size, CHUNK)]
        parts = [self.critic(rows.column, rows.value, rows.num_critic, chunk) for chunk in chunks]
        values: Array = torch.cat(parts)[:, 0].cpu().numpy()
        return values

    def step(
        self, pool: ThreadPoolExecutor, jobs: Sequence[Job], entropy: float, rate: float
    ) -> Array:
        """Make one step of the optimiser on all jobs' rows; return the sums of METRICS."""
        size = sum(len(which) for _, which in jobs)
        if not size:
            return np.zeros(len(METRICS))

        def work(job: Job) -> tuple[list[Tensor], Array]:
            return gradients(self.actor, self.critic, *job, self.config, entropy)

        results = list(pool.map(work, jobs))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        total, *others = [result[0] for result in results]
        for k, parameter in enumerate(self.optimiser.param_groups[0]["params"][: len(total)]):
            for other in others:
                total[k] += other[k]
            parameter.grad = total[k].div_(size)
        nn.utils.clip_grad_norm_(self.actor.parameters(), self.config.max_gradient)
        nn.utils.clip_grad_norm_(self.critic.parameters(), self.config.max_gradient)
        self.optimiser.step()
        metrics: Array = np.sum([result[1] for result in results], axis=0)
        return metrics


def chunk_loss(
    actor: Network, critic: Network, targets: Targets, chunk: Array, config: Config, entropy: float
) -> tuple[Tensor, Array]:
    """Return the loss of some rows, their sum rather than their mean, and its parts."""
    rows, device = targets.rows, actor.device

    def tensor(values: Array) -> Tensor:
        return torch.from_numpy(values[chunk]).to(device)

    logits = actor(rows.column, rows.value, rows.num_actor, chunk)
    mask, action = tensor(rows.mask), tensor(rows.action).long()
    if targets.log_chances is not None:
        old_log_chances, advantage = tensor(targets.log_chances), tensor(targets.advantage)
        terms = all_action_loss(logits, mask, old_log_chances, advantage, config.clip)
    elif targets.is_imitating:
        terms = imitation_loss(logits, mask, action)
    else:
        old_log_chance, advantage = tensor(rows.log_chance), tensor(targets.advantage)
        terms = policy_loss(logits, mask, action, old_log_chance, advantage, config.clip)
    critic_loss = torch.zeros((), device=device)
    if targets.log_chances is None:
        value = critic(rows.column, rows.value, rows.num_critic, chunk)[:, 0]
        critic_loss = value_loss(value, tensor(targets.returns))
    loss = terms.surrogate - entropy * terms.entropy + config.value_weight * critic_loss
    parts = (terms.surrogate, critic_loss, terms.entropy, terms.divergence, terms.clipped)
    size = len(chunk)
    return loss * size, np.array([float(part.detach()) for part in parts]) * size


def gradients(
    actor: Network, critic: Network, targets: Targets, which: Array, config: Config, entropy: float
) -> tuple[list[Tensor], Array]:
    """Return the summed gradients over the rows `which`, and summed metrics.

    Gradients of the actor's parameters, then of the critic's where it has something to learn.
    """
    parameters = [*actor.parameters()]
    if targets.log_chances is None:
        parameters += critic.parameters()
    total = [torch.zeros_like(p) for p in parameters]
    metrics = np.zeros(len(METRICS))
    for start in range(0, len(which), CHUNK):
        chunk = which[start : start + CHUNK]
        loss, parts = chunk_loss(actor, critic, targets, chunk, config, entropy)
        for kept, new in zip(total, torch.autograd.grad(loss, parameters), strict=True):
            kept += new
        metrics += parts
    return total, metrics
