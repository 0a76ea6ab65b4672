"""Self-play training of Judgement policies: config, model, rollout, losses, the loop, export."""
