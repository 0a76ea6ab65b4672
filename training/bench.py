"""How fast learning is: this learner beside MaskablePPO of sb3-contrib, collecting and learning.

    python -m training.bench [--seconds=4] [--repeats=5] [--workers=2] [--model=FOLDER]

Both train actor and critic of equal widths on the same tables, a minibatch of 1,024 decisions a
step and one pass over each batch; both count decisions of learners only, forced ones left out.
They take turns in one process. MaskablePPO sits at the package's own vectorised env against rule
bots, with as many torch threads as there are workers here; a policy in every seat plays itself
here. With --model it is a trained one from the start, whose units are sparser.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

# Threads of torch that wait by spinning starve the workers.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

from judgement_env.bench_clock import Contestant, Plan, race, wall_clock
from judgement_env.rules import make_rules
from judgement_env.state import pack_rules
from training.config import Config
from training.learner import make_learner
from training.model import actor_of_model, make_actor, make_critic
from training.rollout import Rollout
from training.targets import make_targets
from training.update import update

TABLES, STEPS, MINIBATCH, EPOCHS = 256, 32, 1024, 1
WIDTHS = (256, 256)
PARTS = ("engine", "inference", "learning")


def our_learner(workers: int, model: str, shares: list[tuple[float, ...]]) -> Contestant:
    """Return one batch of `training.train`; each appends its shares of PARTS to `shares`."""
    config = Config(tables=TABLES, steps=STEPS, minibatch=MINIBATCH, epochs=EPOCHS, workers=workers)
    torch.manual_seed(0)
    actor = actor_of_model(model) if model else make_actor(WIDTHS)
    learner = make_learner(actor, make_critic(WIDTHS), config)
    rules = pack_rules([make_rules(config.rules)])
    rollouts = [Rollout(rules, TABLES, STEPS, worker) for worker in range(workers)]
    generators = [rollout.generator for rollout in rollouts]
    pool = ThreadPoolExecutor(workers, "worker", torch.set_num_threads, (1,))

    def play() -> tuple[int, float]:
        started = wall_clock()
        batch = list(pool.map(lambda r: r.collect(learner.logits_of), rollouts))
        collected = wall_clock()
        targets = list(pool.map(lambda r: make_targets(learner.values_of, r, config), rollouts))
        update(pool, learner, targets, generators, config, config.entropy, config.learning_rate)
        total = wall_clock() - started
        inference = sum(rollout.inference_seconds for rollout in rollouts) / workers
        playing = collected - started
        parts = (playing - inference, inference, total - playing)
        shares.append(tuple(part / total for part in parts))
        return sum(len(rows.action) for rows in batch), total

    return play


def masked_ppo(threads: int) -> Contestant:
    """Return one batch of MaskablePPO on the package's vectorised env; torch has `threads`."""
    from training.sb3_ppo import Sb3Config, make_env, make_model, opponents_of

    config = Sb3Config(
        tables=TABLES,
        steps=STEPS,
        minibatch=MINIBATCH,
        epochs=EPOCHS,
        hidden=WIDTHS,
        critic_hidden=WIDTHS,
    )
    env = make_env(config, make_rules(config.rules), opponents_of(config), TABLES)
    model = make_model(config, env, seed=1)

    def play() -> tuple[int, float]:
        before, first = torch.get_num_threads(), model.num_timesteps
        torch.set_num_threads(threads)
        started = time.perf_counter()
        model.learn(1, log_interval=None, reset_num_timesteps=first == 0)
        seconds = time.perf_counter() - started
        torch.set_num_threads(before)
        return model.num_timesteps - first, seconds

    return play


def described(ours: Sequence[float], peer: Sequence[float], shares: Sequence[float]) -> str:
    """Return the samples, decisions a second, as three lines: ours, the peer's, their ratio."""

    def rate(samples: Sequence[float]) -> str:
        return f"{median(samples):8,.0f} [{min(samples):,.0f}-{max(samples):,.0f}] decisions/s"

    ratios = [a / b for a, b in zip(ours, peer, strict=True)]
    parts = ", ".join(f"{name} {share:.0%}" for name, share in zip(PARTS, shares, strict=True))
    return (
        f"training.train {rate(ours)}: {parts}\n"
        f"MaskablePPO    {rate(peer)}\n"
        f"ratio          {median(ratios):8.2f} [{min(ratios):.2f}-{max(ratios):.2f}]"
    )


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--seconds", type=float, default=4.0, help="of each sample of each side")
    parser.add_argument("--repeats", type=int, default=5, help="samples of each side")
    parser.add_argument("--workers", type=int, default=2, help="threads of each side")
    parser.add_argument("--model", default="", help="a trained policy to start from")
    options = parser.parse_args(arguments)
    for name, least in (("seconds", 0), ("repeats", 1), ("workers", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name}: {getattr(options, name)} (allowed: at least {least})")
    shares: list[tuple[float, ...]] = []
    try:
        contestants = [
            our_learner(options.workers, options.model, shares),
            masked_ppo(options.workers),
        ]
    except (ValueError, OSError, ImportError) as error:
        print(f"training.bench: {error}", file=sys.stderr)
        return 2
    plan = Plan(repeats=options.repeats, slices=1, seconds=options.seconds)
    ours, peer = race(contestants, plan)
    # The first batch, beforehand, compiles.
    means = np.mean(shares[1:], axis=0).tolist()
    print(described(ours, peer, means))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
