from __future__ import annotations

import re

import pytest

pytest.importorskip("sb3_contrib")

from training import bench
from training.bench import described, main


def test_the_report_says_medians_ranges_shares_and_the_ratio() -> None:
    text = described([9000, 3000, 6000], [1000, 1000, 2000], [0.1, 0.2, 0.7])
    ours, peer, ratio = text.splitlines()
    assert "6,000 [3,000-9,000] decisions/s: engine 10%, inference 20%, learning 70%" in ours
    assert "1,000 [1,000-2,000] decisions/s" in peer
    assert re.search(r"3\.00 \[3\.00-9\.00\]", ratio)


def test_both_learners_are_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "TABLES", 16)
    monkeypatch.setattr(bench, "MINIBATCH", 256)
    assert main(["--seconds=0", "--repeats=1", "--workers=1"]) == 0
    ours, peer, ratio = capsys.readouterr().out.splitlines()
    rates = [float(line.split()[1].replace(",", "")) for line in (ours, peer)]
    assert min(rates) > 0
    assert float(ratio.split()[1]) == pytest.approx(rates[0] / rates[1], rel=0.02)
    shares = [int(share) for share in re.findall(r"(\d+)%", ours)]
    assert len(shares) == 3
    assert 98 <= sum(shares) <= 102


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--repeats=0", "--repeats: 0 (allowed: at least 1)"),
        ("--model=nowhere", "nowhere"),
    ],
)
def test_a_wrong_argument_is_named(
    argument: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main([argument]) == 2
    except SystemExit as ended:
        assert ended.code == 2
    assert words in capsys.readouterr().err
