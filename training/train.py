"""Self-play training, read top to bottom: collect, advantage, update, evaluate, save.

    python -m training.train configs/train/quick.yaml [--field=value …] [--resume]

Every metric of metrics.csv and TensorBoard, one row a batch:

decisions            real decisions collected since the run began (forced ones are not counted)
seconds              training time since the run began, pauses between resumes not counted
decisions_per_second of this batch, collecting and learning together
share_engine         share of the batch's time in playing, dealing and encoding
share_inference      … in the policy while collecting
share_learning       … in the critic, the advantages and the gradient steps
loss_policy          clipped surrogate loss; cross-entropy while the teacher is imitated
loss_value           half the mean squared error of the critic; `training.objective` makes rewards
entropy              mean entropy of the policy as a share of the entropy of a uniform legal choice
divergence           estimated KL divergence of the policy from the one that collected the batch
clipped              share of decisions whose probability ratio left the clip range
explained            share of the variance of returns that the critic foresaw; nan without one
learning_rate, entropy_weight   the schedules' values
made_C, points_C     share of bids made and points per round, rounds of C cards, all seats together,
                     rounds with a rare hand included
zero_bids            share of bids that were 0
versus_points        lead of the averaged policy per round over rule bots, or the field's bot, in
                     all other seats
versus_error         half the 95 % interval of it
versus_made          share of bids the averaged policy makes against them
versus_wins          share of matches it wins against them, a shared win split; one player's fair
                     share is 1 / players
"""

from __future__ import annotations

import copy
import dataclasses
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

# Until the libraries are loaded, Ctrl-C ends the process without a traceback.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
# Threads of torch that wait by spinning starve the workers (measured: 20 k to 1 k rows a second).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from judgement_env.arena import one_versus_field
from judgement_env.bots import Bot, make_bot
from judgement_env.bots.inputs import CRITIC_SIZE
from judgement_env.bots.neural import NeuralBot
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.bots.simple import HeuristicBot
from judgement_env.rules import Rules
from judgement_env.state import Array, pack_rules
from training.checkpoint import commit, save_checkpoint
from training.config import Config, resolve, to_dict
from training.learner import logits_of, make_learner
from training.log import Log, self_play_metrics, time_left
from training.model import Network, actor_of_model, first_networks, load_weights
from training.objective import make_objective
from training.program import (
    Interrupt,
    check_device,
    check_room,
    history,
    prepare,
    run,
    say_how_to_go_on,
    say_it_is_over,
)
from training.rollout import Rollout
from training.rows import LogitsOf, Rows, new_rows
from training.targets import make_targets
from training.update import check_finite, update

PROGRAM = "training.train"
# What an evaluation finds; nan before the first.
VERSUS = ("versus_points", "versus_error", "versus_made", "versus_wins")


def network_of(actor: Network) -> PolicyNetwork:
    """Return a trained actor as it plays without torch."""
    return PolicyNetwork({n: p.detach().cpu().numpy() for n, p in actor.named_parameters()})


def frozen(folder: str, device: str) -> LogitsOf:
    """Return the logits of a model that learns nothing and plays its likeliest actions."""
    logits = logits_of(actor_of_model(folder).to(device))

    def sure(rows: Rows, which: Array) -> Array:
        # Far enough apart that a draw never takes another than the likeliest.
        return 1000 * logits(rows, which)

    return sure


def rehearse(
    config: Config, rules: list[Rules], actor: Network, critic: Network, field: LogitsOf | None
) -> None:
    """Collect and learn a little with copies of the networks."""
    config = dataclasses.replace(config, workers=1)
    plays_out = config.advantages == "playouts"
    teacher = make_bot(config.teacher)
    rollout = Rollout(
        pack_rules(rules), 1, 32, 0, plays_out=plays_out, field=field, teacher=teacher
    )
    learner = make_learner(copy.deepcopy(actor), copy.deepcopy(critic), config)
    if config.imitation:
        rollout.collect(None, is_imitating=True)
    rollout.collect(learner.logits_of)
    targets = make_targets(learner.values_of, rollout, config)
    with ThreadPoolExecutor(1) as pool:
        learner.step(pool, [(targets, np.arange(8))], 0.0, 0.0)


def train(
    config: Config, resume: bool = False, command: str = "", again: Sequence[str] = ()
) -> Path:
    """Train until the config's limits; return the run's folder, which holds its checkpoint.

    `command` is kept for the card of a model made of the run, `again` is the module and the
    arguments that go on with a run of another program than this.
    """
    check_device(config.device)
    config, rules = resolve(config)
    check_room(config, sum(array.nbytes for array in new_rows(1)), CRITIC_SIZE)
    actor, critic = first_networks(config, resume)
    field: LogitsOf | None = None
    opponent: Bot = HeuristicBot()
    if config.field:
        field, opponent = frozen(config.field, config.device), NeuralBot(config.field)
    folder, saved, lock = prepare(config, resume, PROGRAM, again)
    torch.set_num_threads(1)
    packed = pack_rules(rules)
    objective = make_objective(packed, config.relative, config.match_weight)
    rollouts = [
        Rollout(
            packed,
            config.tables,
            config.steps,
            seed=config.seed * 1000 + worker,
            objective=objective,
            rule_bot_tables=config.rule_bot_tables,
            plays_out=config.advantages == "playouts",
            field=field,
            rare_deals=config.rare_deals,
            teacher=make_bot(config.teacher),
        )
        for worker in range(config.workers)
    ]
    average = copy.deepcopy(actor)
    learner = make_learner(actor, critic, config)
    decisions, seconds, batches = 0, 0.0, 0
    if saved is not None:
        for name, network in (("actor", actor), ("critic", critic), ("average", average)):
            load_weights(network, saved[name], f"{folder}: {name}")
        learner.load_state_dict(saved["optimiser"])
        decisions, seconds, batches = saved["decisions"], saved["seconds"], saved["batches"]
        command = history(saved["command"], command)
        for rollout, state in zip(rollouts, saved["rollouts"], strict=True):
            rollout.set_state(state)

    code = commit()

    def save() -> None:
        content = {
            "config": to_dict(config),
            "command": command,
            "commit": code,
            "workers": config.workers,
            "actor": actor.state_dict(),
            "critic": critic.state_dict(),
            "average": average.state_dict(),
            "optimiser": learner.state_dict(),
            "decisions": decisions,
            "seconds": seconds,
            "batches": batches,
            "rollouts": [rollout.get_state() for rollout in rollouts],
        }
        save_checkpoint(folder / "checkpoint.pt", content)

    # Compile the kernels before the clock starts: it can take minutes, none of them training.
    rehearse(config, rules, actor, critic, field)
    evaluated = saved_at = seconds
    with (
        closing(Interrupt()) as interrupt,
        closing(Log(folder, decisions, config.field or "rule bots")) as log,
        ThreadPoolExecutor(config.workers, "worker", torch.set_num_threads, (1,)) as pool,
    ):
        log.versus = dict.fromkeys(VERSUS, np.nan)
        while True:
            done = max(
                decisions / config.decisions if config.decisions else 0.0,
                seconds / (60 * config.minutes) if config.minutes else 0.0,
            )
            if done >= 1 or interrupt.is_set:
                break
            started = time.perf_counter()
            rate = config.learning_rate + done * (config.final_learning_rate - config.learning_rate)
            entropy = config.entropy + done * (config.final_entropy - config.entropy)

            # Collect, in every worker at once.
            is_imitating = decisions < config.imitation
            many = [is_imitating] * config.workers
            batch = list(pool.map(lambda r, i: r.collect(learner.logits_of, i), rollouts, many))
            collected = time.perf_counter()
            num_own = sum(int(rows.is_own.sum()) for rows in batch)
            decisions += num_own

            # Advantages and gradient steps.
            targets = list(
                pool.map(lambda r, i: make_targets(learner.values_of, r, config, i), rollouts, many)
            )
            generators = [rollout.generator for rollout in rollouts]
            learned = update(pool, learner, targets, generators, config, entropy, rate)
            check_finite((actor, critic), decisions)
            with torch.no_grad():
                for kept, new in zip(average.parameters(), actor.parameters(), strict=True):
                    kept.lerp_(new, 1 - min(config.averaging, batches / (batches + 10)))
            batches += 1
            ended = time.perf_counter()
            seconds += ended - started

            # Evaluate the averaged policy against rule bots or the field.
            is_last = (config.decisions and decisions >= config.decisions) or (
                config.minutes and seconds >= 60 * config.minutes
            )
            is_due = bool(is_last) or seconds - evaluated >= 60 * config.evaluate_every
            if is_due and config.evaluate_matches:
                bot = NeuralBot.from_network(network_of(average))
                row = one_versus_field(bot, opponent, rules[0], config.evaluate_matches, 1)
                log.versus = {
                    "versus_points": row.difference,
                    "versus_error": (row.high - row.low) / 2,
                    "versus_made": row.hit_rate,
                    "versus_wins": row.win_share,
                }

            # Log and save.
            evaluated = seconds if is_due else evaluated
            inference = sum(rollout.inference_seconds for rollout in rollouts) / config.workers
            total = ended - started
            metrics = {
                "decisions": decisions,
                "seconds": seconds,
                "decisions_per_second": num_own / total,
                "share_engine": (collected - started - inference) / total,
                "share_inference": inference / total,
                "share_learning": (ended - collected) / total,
                **learned,
                "explained": float(np.mean([target.explained for target in targets])),
                "learning_rate": rate,
                "entropy_weight": entropy,
                **self_play_metrics(rollouts, max(r.max_cards for r in rules)),
                **log.versus,
            }
            log.write(metrics)
            log.progress(metrics, time_left(config, decisions, seconds), is_due)
            if seconds - saved_at >= 60 * config.checkpoint_every:
                save()
                saved_at = seconds
        save()
    if interrupt.is_set and done < 1:
        say_how_to_go_on(PROGRAM, folder, decisions, again)
    elif saved is not None and batches == saved["batches"]:
        say_it_is_over(folder)
    lock.close()
    return folder


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    return run(PROGRAM, __doc__, Config, train, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
