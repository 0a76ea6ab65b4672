"""MaskablePPO of sb3-contrib for one seat among bots, then matches against bots at random.

    python docs/examples/sb3_example.py --decisions 60000 --export my-bot

The learner's transitions lead from one of its decisions to its next; illegal actions are masked.
"""

import argparse

import torch

from judgement_env import Rules, arena
from judgement_env.integrations.sb3 import JudgementVecEnv, MaskablePPO, Sb3Bot


def train(rules: Rules, tables: int, decisions: int, opponents: str, seed: int) -> MaskablePPO:
    """Return a model that has made `decisions` among `opponents`."""
    # canonical=True and ReLU are what the export asks for; neither is needed to learn.
    env = JudgementVecEnv(
        rules, tables, opponents=opponents, canonical=True, reward_scale=0.1, skip_forced=True
    )
    model = MaskablePPO(
        "MlpPolicy",
        env,
        learning_rate=2e-3,
        n_steps=4096 // tables,
        batch_size=512,
        n_epochs=4,
        gamma=1.0,
        ent_coef=0.01,
        stats_window_size=2000,
        policy_kwargs={"activation_fn": torch.nn.ReLU, "net_arch": [64]},
        seed=seed,
        device="cpu",
    )
    while model.num_timesteps < decisions:
        model.learn(decisions // 5, log_interval=None, reset_num_timesteps=False)
        points = [episode["r"] for episode in model.ep_info_buffer]
        mean = sum(points) / len(points)
        print(f"{model.num_timesteps:,} decisions: {mean:+.2f} points a round while exploring")
    return model


def main() -> None:
    """Train, compare with bots that play at random, and export if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cards", type=int, default=3, help="cards dealt to each seat")
    parser.add_argument("--tables", type=int, default=128)
    parser.add_argument("--decisions", type=int, default=60_000)
    parser.add_argument("--opponents", default="random", help="bots in the other seats")
    parser.add_argument("--matches", type=int, default=2000, help="of the comparison")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--export", metavar="FOLDER", help="write a model folder there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rules = Rules.preset("kachuful", cards=[args.cards])
    model = train(rules, args.tables, args.decisions, args.opponents, args.seed)
    result = arena.compare(
        [Sb3Bot(model), "random"], rules, matches=args.matches, formats=["one-versus-field"]
    )
    more = result.versus("sb3", "random").difference
    print(
        f"{more:+.2f} points a round over random bots (95 %: {more.low:+.2f} to {more.high:+.2f})"
    )
    if args.export:
        from training.sb3_ppo import export_model

        folder = export_model(model, args.export, rules, matches=args.matches)
        print(f"judgement play --bots {folder},heuristic,heuristic")


if __name__ == "__main__":
    main()
