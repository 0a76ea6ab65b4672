"""MaskablePPO of sb3-contrib against bots and its own past selves, read top to bottom.

    python -m training.sb3_ppo configs/train/sb3.yaml [--field=value …] [--resume]

runs/<name> holds what `training.train` keeps there, so export and evaluate take it alike:
`python -m training.export runs/sb3`. metrics.csv and TensorBoard hold decisions (the learner's),
seconds, decisions_per_second, learning_rate, entropy_weight, past_selves (how many sit in the
pool), points (mean reward of the last 1,000 episodes, not scaled), versus_points, versus_error
and versus_made as in `training.train`, and what the library calls train/….
"""

from __future__ import annotations

import dataclasses
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

# Until the libraries are loaded, Ctrl-C ends the process without a traceback.
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from judgement_env.arena import one_versus_field
from judgement_env.bots import Bot, make_bot
from judgement_env.bots.inputs import INPUT_SIZE
from judgement_env.bots.neural import NeuralBot
from judgement_env.bots.policy import PolicyNetwork
from judgement_env.bots.simple import HeuristicBot
from judgement_env.cards import NUM_ACTIONS
from judgement_env.rules import Rules, make_rules
from judgement_env.state import Array
from training.config import RunConfig, plain_rules, to_dict
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

# The program explains itself without the libraries, and then says which extras it lacks.
MISSING = ""
try:
    import numpy as np
    import torch
    from stable_baselines3.common.logger import Logger

    from judgement_env.integrations.sb3 import (
        JudgementVecEnv,
        MaskablePPO,
        policy_network,
        policy_weights,
    )
    from training.checkpoint import commit, save_checkpoint
    from training.export import write_model
    from training.log import Log, time_left
except ImportError as error:
    MISSING = (
        f"needs more libraries ({error.__cause__ or error}); pip install 'judgement-env[sb3,train]'"
    )
    if __name__ != "__main__":
        raise ImportError(f"training.sb3_ppo: {MISSING}") from error

PROGRAM = "training.sb3_ppo"


@dataclasses.dataclass(frozen=True)
class Sb3Config(RunConfig):
    """A run of MaskablePPO. `tables` learn side by side, `steps` decisions each in one batch."""

    name: str = "sb3"
    decisions: int = 3_000_000
    steps: int = 32
    epochs: int = 3
    minibatch: int = 1024
    entropy: float = 0.02
    # What sits in the other seats: bots as `make_bot` takes them, drawn for each seat and episode.
    opponents: Any = "heuristic"
    # Every so many decisions the learner joins them; 0 = never. The oldest leave.
    past_every: int = 250_000
    past_kept: int = 6
    # How often a seat is a past self's, once there are some.
    past_share: float = 0.5
    # "match" or "round"; "points" or "relative", the lead over the mean of the others.
    episode: str = "round"
    reward: str = "relative"
    # The value network shares a gradient's length with the policy: its errors should be about 1.
    reward_scale: float = 0.1


def opponents_of(config: Sb3Config) -> list[Bot]:
    """Return the bots of the config; ValueError for what is no bot."""
    given = config.opponents if isinstance(config.opponents, list) else [config.opponents]
    if not given or not all(isinstance(spec, str) for spec in given):
        raise ValueError(f"opponents: {config.opponents!r} (allowed: a bot or a list of bots)")
    return [make_bot(spec, seed=k) for k, spec in enumerate(given)]


def seat_opponents(env: JudgementVecEnv, bots: list[Bot], past: list[Any], share: float) -> None:
    """Let the next episodes draw opponents from `bots` and the past selves' weights."""
    selves = [
        NeuralBot.from_network(PolicyNetwork(weights), f"past {k}", seed=k, greedy=False)
        for k, weights in enumerate(past)
    ]
    part = share if past else 0.0
    odds = [(1 - part) / len(bots)] * len(bots) + [part / max(1, len(past))] * len(past)
    env.set_opponent_pool([*bots, *selves], odds)


def make_env(config: Sb3Config, rules: Rules, bots: list[Bot], tables: int) -> JudgementVecEnv:
    """Return the tables the learner sits at."""
    return JudgementVecEnv(
        rules,
        tables,
        config.seed,
        canonical=True,
        reward_scale=config.reward_scale,
        opponent_pool=bots,
        episode=config.episode,
        reward=config.reward,
        skip_forced=True,
    )


def make_model(config: Sb3Config, env: JudgementVecEnv, seed: int) -> Any:
    """Return MaskablePPO with the config's networks, whose weights `PolicyNetwork` can take.

    Raises ValueError where there is no room for them.
    """
    try:
        model = MaskablePPO(
            "MlpPolicy",
            env,
            n_steps=config.steps,
            batch_size=config.minibatch,
            n_epochs=config.epochs,
            gamma=1.0,
            gae_lambda=config.gae_lambda,
            clip_range=config.clip,
            vf_coef=config.value_weight,
            max_grad_norm=config.max_gradient,
            stats_window_size=1000,
            policy_kwargs={
                "activation_fn": torch.nn.ReLU,
                "net_arch": {"pi": list(config.hidden), "vf": list(config.critic_hidden)},
            },
            seed=seed,
            device=config.device,
        )
    except RuntimeError as error:
        raise ValueError(
            f"hidden: {config.hidden}, critic_hidden: {config.critic_hidden}: no such networks can"
            f" be made ({str(error).splitlines()[0]})"
        ) from None
    # Without one of ours the library makes a folder for its log at every call of learn.
    model.set_logger(Logger(None, []))
    return model


def constant(rate: float) -> Callable[[float], float]:
    """Return a schedule that stays where it is."""
    return lambda left: rate


def tensors(weights: dict[str, Array]) -> dict[str, torch.Tensor]:
    """Return weights as a checkpoint holds them."""
    return {name: torch.from_numpy(array) for name, array in weights.items()}


def train(config: Sb3Config, resume: bool = False, command: str = "") -> Path:
    """Train until the config's limits; return the run's folder, which holds its checkpoint.

    A run that goes on has the weights, the optimiser and the past selves of before, and new deals.
    """
    if MISSING:
        raise ValueError(MISSING)
    if isinstance(config.rules, list):
        raise ValueError(f"rules: {config.rules!r} (allowed: one set of rules)")
    if config.minibatch > config.tables * config.steps:
        raise ValueError(
            f"minibatch: {config.minibatch} of batches of {config.tables * config.steps}"
            " (allowed: up to tables times steps)"
        )
    plain, rules = plain_rules(config.rules)
    config = dataclasses.replace(config, rules=plain)
    torch.set_num_threads(1)
    check_device(config.device)
    # A row is inputs, legal actions, and seven numbers of the library's own, float32 each.
    check_room(config, 4 * (INPUT_SIZE + NUM_ACTIONS + 7), INPUT_SIZE)
    bots = opponents_of(config)
    env = make_env(config, rules, bots, config.tables)
    folder, saved, lock = prepare(config, resume, PROGRAM)
    decisions, seconds, batches, past_at = 0, 0.0, 0, 0
    past: list[dict[str, Array]] = []
    if saved is not None:
        decisions, seconds, batches = (saved[k] for k in ("decisions", "seconds", "batches"))
        past_at, command = saved["past_at"], history(saved["command"], command)
        past = [{name: t.numpy() for name, t in weights.items()} for weights in saved["past"]]
        seat_opponents(env, bots, past, config.past_share)
    seed = int(np.random.SeedSequence([config.seed, decisions]).generate_state(1)[0]) >> 1
    model = make_model(config, env, seed)
    if saved is not None:
        model.policy.load_state_dict(saved["policy"])
        model.policy.optimizer.load_state_dict(saved["optimiser"])
        model.num_timesteps = decisions
    code = commit()

    def save() -> None:
        content = {
            "program": PROGRAM,
            "config": to_dict(config),
            "command": command,
            "commit": code,
            "workers": 1,
            "average": tensors(policy_weights(model)),
            "policy": model.policy.state_dict(),
            "optimiser": model.policy.optimizer.state_dict(),
            "decisions": decisions,
            "seconds": seconds,
            "batches": batches,
            "past_at": past_at,
            "past": [tensors(weights) for weights in past],
        }
        save_checkpoint(folder / "checkpoint.pt", content)

    # Compile the kernels before the clock starts: it can take minutes, none of them training.
    trial = make_env(config, rules, [*bots, NeuralBot.from_network(policy_network(model))], 2)
    trial.reset()
    for _ in range(8):
        trial.step(trial.action_masks().argmax(axis=1))

    evaluated = saved_at = seconds
    with (
        closing(Interrupt()) as interrupt,
        closing(Log(folder, decisions)) as log,
        ExitStack() as stack,
    ):
        for bot in bots:
            stack.enter_context(bot)
        log.versus = {"versus_points": np.nan, "versus_error": np.nan, "versus_made": np.nan}
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
            model.lr_schedule, model.ent_coef = constant(rate), entropy

            # Collect one batch and learn from it.
            model.learn(1, log_interval=None, reset_num_timesteps=batches == 0)
            decisions = model.num_timesteps
            batches += 1

            # The learner as it is now joins its opponents.
            if config.past_every and decisions - past_at >= config.past_every:
                past = [*past, policy_weights(model)][-config.past_kept :]
                past_at = decisions
                seat_opponents(env, bots, past, config.past_share)
            spent = time.perf_counter() - started
            seconds += spent

            # Evaluate the policy against three rule bots.
            is_last = (config.decisions and decisions >= config.decisions) or (
                config.minutes and seconds >= 60 * config.minutes
            )
            is_due = bool(is_last) or seconds - evaluated >= 60 * config.evaluate_every
            if is_due and config.evaluate_matches:
                learner = NeuralBot.from_network(policy_network(model))
                row = one_versus_field(learner, HeuristicBot(), rules, config.evaluate_matches, 1)
                log.versus = {
                    "versus_points": row.difference,
                    "versus_error": (row.high - row.low) / 2,
                    "versus_made": row.hit_rate,
                }

            # Log and save.
            evaluated = seconds if is_due else evaluated
            episodes = [episode["r"] for episode in model.ep_info_buffer]
            metrics = {
                "decisions": decisions,
                "seconds": seconds,
                "decisions_per_second": config.tables * config.steps / spent,
                "learning_rate": rate,
                "entropy_weight": entropy,
                "past_selves": len(past),
                "points": float(np.mean(episodes)) if episodes else np.nan,
                **{k: float(v) for k, v in model.logger.name_to_value.items()},
                **log.versus,
            }
            log.write(metrics)
            log.progress(metrics, time_left(config, decisions, seconds), is_due)
            if seconds - saved_at >= 60 * config.checkpoint_every:
                save()
                saved_at = seconds
        save()
    if interrupt.is_set and done < 1:
        say_how_to_go_on(PROGRAM, folder, decisions)
    elif saved is not None and batches == saved["batches"]:
        say_it_is_over(folder)
    lock.close()
    return folder


def export_model(
    model: Any, folder: str | Path, rules: Any = "kachuful", matches: int = 2000, name: str = ""
) -> Path:
    """Write the model folder of any model that learnt on canonical observations; return it.

    rules: those it learnt, for the card. matches, name and errors as in `training.export.export`.
    """
    config = {"rules": make_rules(rules).to_dict(), "algorithm": type(model).__name__}
    told = {"config": config, "decisions": model.num_timesteps, "seconds": 0, "workers": 1}
    return write_model(policy_weights(model), told, folder, matches, name)


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    return run(PROGRAM, __doc__, Sb3Config, train, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
