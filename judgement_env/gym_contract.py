"""What the Gymnasium environment of one learner, or a wrapper of it, keeps to, as sentences.

What is true is read from the environment inside (`env.unwrapped`): the learner's view, its record,
and the rewards of the same actions without the wrapper. `judgement_env.testing.check_env` is the
way in.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from judgement_env.cards import NUM_ACTIONS
from judgement_env.contract import Check, Subject, actions_text, broken, frozen, said
from judgement_env.gym_env import JudgementEnv
from judgement_env.table import IllegalActionError, Table


class Moment(NamedTuple):
    """The learner's turn: what it was shown, and the legal action that it takes next."""

    observation: Any
    info: dict[str, Any]
    action: int


class GymSubject(Subject):
    """An environment, the `JudgementEnv` inside it, and where the check is."""

    def __init__(self, env: Any, inner: JudgementEnv, seed: int) -> None:
        self.env = env
        self.inner = inner
        self.seed = seed
        self.given = 0.0

    def play(self, env: Any) -> Iterator[Moment]:
        """Play an episode of random legal actions; `given` adds up its rewards."""
        rng = random.Random(f"play {self.seed}")
        self.place, self.given = f"seed {self.seed}, reset", 0.0
        observation, info = env.reset(seed=self.seed)
        is_over = False
        decision = 0
        while not is_over:
            action = rng.choice(env.unwrapped.view().legal)
            self.place = f"seed {self.seed}, step {decision}"
            yield Moment(observation, info, action)
            observation, reward, terminated, truncated, info = env.step(action)
            self.given += float(reward)
            is_over = terminated or truncated
            decision += 1


def check_spaces(subject: GymSubject) -> None:
    """Find what is shown or legal outside its space."""
    for moment in subject.play(subject.env):
        if not subject.env.observation_space.contains(moment.observation):
            broken(f"the observation is not in {subject.env.observation_space}")
        if not subject.env.action_space.contains(np.int64(moment.action)):
            broken(f"action {moment.action} is legal, but not in {subject.env.action_space}")


def check_masks(subject: GymSubject) -> None:
    """Compare the mask with the learner's view."""
    for moment in subject.play(subject.env):
        legal = list(subject.inner.view().legal)
        mask = moment.info.get("action_mask")
        if mask is None or np.shape(mask) != (NUM_ACTIONS,):
            broken("info['action_mask'] is missing, or not of shape (79,)")
        if np.flatnonzero(mask).tolist() != legal:
            allowed = actions_text(np.flatnonzero(mask).tolist())
            broken(f"the mask allows {allowed}, the rules {actions_text(legal)}")


def check_observations(subject: GymSubject) -> None:
    """Compare the observation with the learner's view."""
    for moment in subject.play(subject.env):
        known = subject.inner.view().observation(subject.inner.batch.dtype)
        if not np.array_equal(moment.observation, known):
            broken("the observation is not what the seat knows")


def check_kept(subject: GymSubject) -> None:
    """Compare what was handed out with what it was."""
    given: list[tuple[Any, Any, str]] = []
    for moment in subject.play(subject.env):
        for value, was, place in given:
            if frozen(value) != was:
                broken(f"what was handed out at {place} reads differently now")
        value = (moment.observation, moment.info)
        given = [*given[-8:], (value, frozen(value), subject.place)]


def check_rewards(subject: GymSubject) -> None:
    """Take the same actions without the wrapper."""
    sums = []
    for env in (subject.env, subject.inner):
        for _ in subject.play(env):
            pass
        sums.append(subject.given)
    if abs(sums[0] - sums[1]) > 1e-4:
        broken(f"rewards came to {sums[0]:g}, the seat was given {sums[1]:g}")


def check_seeded(subject: GymSubject) -> None:
    """Play again."""
    first = [frozen((m.observation, m.info)) for m in subject.play(subject.env)]
    again = [frozen((m.observation, m.info)) for m in subject.play(subject.env)]
    if first != again:
        broken("the second time observations or infos were others")


def check_deepcopy(subject: GymSubject) -> None:
    """Play on with both."""
    twin: Any = None
    for k, moment in enumerate(subject.play(subject.env)):
        if k == 5:
            twin = copy.deepcopy(subject.env)
        if twin is not None:
            seen, known = twin.unwrapped.view().to_json(), subject.inner.view().to_json()
            if twin.unwrapped is subject.inner or seen != known:
                broken("the copy is at another moment of the match")
            twin.step(moment.action)


def check_illegal(subject: GymSubject) -> None:
    """Try actions that are not legal, each in an episode of its own."""
    mode = subject.inner.batch.illegal_action
    for stop in (0, 3, 7):
        moments = subject.play(subject.env)
        for k, _ in enumerate(moments):
            if k == stop:
                break
        else:
            # The episode was over before.
            return
        illegal = next(a for a in range(NUM_ACTIONS) if a not in subject.inner.view().legal)
        before = json.dumps(subject.inner.record())
        subject.place += f", step({illegal})"
        try:
            _, _, terminated, _, info = subject.env.step(illegal)
        except IllegalActionError:
            if mode != "raise" or json.dumps(subject.inner.record()) != before:
                broken(f"illegal_action={mode!r}, and it raised or changed the match")
            continue
        except Exception as error:
            broken(f"{said(error)} (due: what illegal_action={mode!r} says)")
        # What is played instead may be the last card of the match.
        is_over = mode == "end" or bool(subject.inner.record()["winners"])
        if mode == "raise" or info.get("illegal_action") != 1 or terminated != is_over:
            broken(f"illegal_action={mode!r}, info {info}, terminated {terminated}")


def check_record(subject: GymSubject) -> None:
    """Replay the record of a whole episode."""
    for _ in subject.play(subject.env):
        pass
    record = json.loads(json.dumps(subject.inner.record()))
    if not record["winners"] or Table.from_record(record).record() != record:
        broken("the record, read back and replayed, is another match")


GYM_CHECKS: tuple[Check, ...] = (
    Check("spaces", "What it shows and takes is in its spaces.", check_spaces),
    Check(
        "masks",
        "info['action_mask'] is the learner's legal actions by the rules.",
        check_masks,
    ),
    Check("hidden", "An observation is what the learner may know, no more.", check_observations),
    Check("kept", "What was handed out stays as it was when the match goes on.", check_kept),
    Check("rewards", "Rewards come to what the seat is given in the match.", check_rewards),
    Check("seeded", "The same seed and actions give the same.", check_seeded),
    Check("deepcopy", "A deepcopy goes on with the same match, on its own.", check_deepcopy),
    Check("illegal", "An illegal action does what illegal_action says.", check_illegal),
    Check("record", "The record of an episode replays.", check_record),
)
