"""A person at the terminal: whole matches by scripts that read the screen, mistakes included."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from judgement_env import Rules, Table, make_bot
from judgement_env import record as records
from judgement_env.bots import SIMPLE, Bot, BotError
from judgement_env.cards import CARD_TEXTS, card_symbol
from judgement_env.narrate import Narrator
from judgement_env.play import Game, play, short_names
from judgement_env.prompts import COMMANDS
from judgement_env.render import Ink
from judgement_env.replay import replay
from judgement_env.view import View

ROOT = Path(__file__).resolve().parent.parent
SYMBOLS = {"♠": "s", "♥": "h", "♣": "c", "♦": "d"}
CARD = re.compile(r"(?:10|[2-9JQKA])[♠♥♣♦]")
MISTAKES = ("zz", "", "as as", "-1", "99", "1S", "0x3", "?", "h", "t", "s", "r", "bid 27")
HOUSES = {
    "kachuful": Rules(),
    "blind-eight": Rules.preset("blind-eight"),
    "bids at once": Rules(cards=[3, 2], hook=False, bidding="simultaneous"),
    "blind bids at once": Rules(cards=[1, 1], bidding="simultaneous", hook=False, blind_rounds=[1]),
    "two packs for six": Rules(num_players=6, packs=2, cards=[8, 2]),
    "oh-hell": Rules.preset("oh-hell", num_players=5),
    "anticlockwise": Rules.preset("sweep-ten-anticlockwise", top=4),
    "ten players": Rules(num_players=10, player_range=[3, 10], cards=[5, 1]),
}


class Screen(io.StringIO):
    """Keeps what is written; has the suit symbols, as most terminals do."""

    encoding = "utf-8"


class Person:
    """Answers by what the screen shows; makes `mistakes` mistakes before each answer."""

    def __init__(self, screen: Screen, mistakes: int = 0) -> None:
        self.screen = screen
        self.mistakes = mistakes
        self.made = 0
        self.left = mistakes
        self.typed: list[str] = []

    def isatty(self) -> bool:
        return False

    def readline(self) -> str:
        text = self.screen.getvalue()
        question = text[text.rindex("\n") + 1 :]
        if self.left:
            self.left -= 1
            self.made += 1
            answer = MISTAKES[self.made % len(MISTAKES)]
        else:
            self.left = self.mistakes
            answer = self.answer(text, question)
        self.typed.append(answer)
        return answer + "\n"

    def answer(self, text: str, question: str) -> str:
        if "Your bid" in question:
            numbers = [int(number) for number in re.findall(r"\d+", question)]
            if "not" in question:
                low, high, hole = numbers
                return str(next(bid for bid in range(low, high + 1) if bid != hole))
            return str(numbers[0])
        hand = text[text.rindex("Hand:") :].splitlines()
        cards = [card for line in hand for card in re.findall(r"\[(.*?)\]", line)]
        # By name and by number in turn.
        if len(self.typed) % 2:
            return cards[0][:-1] + SYMBOLS[cards[0][-1]]
        below = next(line for at, line in enumerate(hand) if at and "[" in hand[at - 1])
        return str(number_under(hand[hand.index(below) - 1], below))


def number_under(cards: str, numbers: str) -> int:
    """The number that stands under the first bracketed card."""
    start, end = cards.index("["), cards.index("]")
    return int(numbers[start : end + 1])


def seat_game(rules: Rules, seat: int = 0, mistakes: int = 0, **deal: Any) -> tuple[Game, Person]:
    screen = Screen()
    person = Person(screen, mistakes)
    names = short_names(["heuristic"] * (rules.num_players - 1))
    names.insert(seat, "you")
    table = Table(rules, players=names, **{"seed": 3, **deal})
    bots: list[Bot | None] = [make_bot("heuristic")] * rules.num_players
    bots[seat] = None
    narrator = Narrator(screen, Ink(False, True), names)
    return Game(table, seat, bots, narrator, person, is_tty=False), person  # type: ignore[arg-type]


def play_scripted(rules: Rules, answers: str, **options: Any) -> tuple[int, str]:
    screen = Screen()
    bots = ["heuristic"] * (rules.num_players - 1)
    status = play(rules, bots, answers=io.StringIO(answers), out=screen, color="never", **options)
    return status, screen.getvalue()


# --- whole matches ----------------------------------------------------------------------------


@pytest.mark.parametrize("rules", HOUSES.values(), ids=HOUSES.keys())
def test_a_match_is_played_to_its_end_by_what_the_screen_shows(
    rules: Rules, tmp_path: Path
) -> None:
    screen, path = Screen(), tmp_path / "match.json"
    person = Person(screen, mistakes=2)
    bots = ["heuristic", "random"] * 5
    status = play(
        rules,
        bots[: rules.num_players - 1],
        seat=1,
        seed=5,
        save=str(path),
        answers=person,  # type: ignore[arg-type]
        out=screen,
    )
    text = screen.getvalue()
    assert status == 0
    table = Table.from_record(records.read(path))
    record = table.record()
    assert table.is_over and record["players"][1] == "you" and record["seed"] == 5
    asked = sum(1 + (0 if plan.is_blind else plan.cards) for plan in rules.schedule)
    assert len(person.typed) == 3 * asked
    assert "--seed 5" in text and f"Record saved: {path}" in text
    for seat in record["winners"]:
        assert record["players"][seat].lower() in text[text.rindex("points.") - 80 :].lower()
    for seat, total in enumerate(record["totals"]):
        assert re.search(rf"\n{record['players'][seat]} .* {total}\n", text)


@pytest.mark.parametrize("rules", HOUSES.values(), ids=HOUSES.keys())
def test_no_card_is_on_the_screen_before_it_may_be_seen(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    game, person = seat_game(rules, seat=2)
    questions = 0
    read = person.readline

    def watched() -> str:
        nonlocal questions
        questions += 1
        text = person.screen.getvalue()
        view = game.table.view(2)
        known = {*view.hand, *(card for _, card in view.trick)}
        known |= {card for trick in view.history for card in trick.plays}
        known |= {view.turn_up} - {-1}
        of_round = text[text.rindex(f"Round {view.round_index + 1} of") :]
        assert set(CARD.findall(of_round)) <= {card_symbol(card) for card in known}
        return read()

    monkeypatch.setattr(person, "readline", watched)
    game.run()
    assert questions > 1


def test_the_screen_is_never_wider_than_80_columns() -> None:
    rules = Rules(num_players=10, player_range=[3, 10], packs=2, cards=[10, 10, 2], trumps=["NT"])
    game, person = seat_game(rules, mistakes=3)
    game.run()
    assert max(map(len, person.screen.getvalue().splitlines())) <= 80


def test_a_screen_without_the_symbols_gets_letters() -> None:
    screen = io.StringIO()
    assert (
        play(Rules(cards=[5]), ["heuristic"] * 3, seed=1, out=screen, answers=io.StringIO("0\n?\n"))
        == 0
    )
    text = screen.getvalue()
    assert text.isascii() and re.search(r"Hand:  [2-9TJQKA][SHCD] ", text)


def test_a_decision_of_ten_players_fits_on_24_lines() -> None:
    rules = Rules(num_players=10, player_range=[3, 10], packs=2, cards=[10])
    game, person = seat_game(rules)
    game.run()
    text = person.screen.getvalue()
    ends = [match.end() for match in re.finditer(r"Your (?:bid|card) \(.*", text)]
    assert len(ends) == 11
    for before, end in zip(ends, ends[1:], strict=False):
        assert text[before:end].count("\n") < 24


# --- mistakes ---------------------------------------------------------------------------------

HANDS = [
    ["AS", "2H", "9C"],
    ["KH", "QH", "3S"],
    ["4D", "5D", "6D"],
    ["7C", "8C", "TC"],
]


def last_bidder(answers: str) -> str:
    """What is said when these answers are given at a table where seat 0 bids last and follows."""
    game, person = seat_game(Rules(cards=[3], trumps=["S"]), deals=[HANDS], dealer=0)
    table = game.table
    for action in ("bid 1", "bid 1", "bid 0"):
        table.push(action)
    game.answers = io.StringIO(answers)
    with pytest.raises(EOFError):
        game.run()
    return person.screen.getvalue()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            "1",
            "The hook: you bid last, and 1 would make the bids add up to 3, the cards in a hand.",
        ),
        ("4", "A bid is 0 to 3, the cards in a hand."),
        ("as", "Cards are played once every bid is in, so A♠ must wait."),
        ("two", "'two' is no bid."),
        ("30", "'30' is no bid."),
        ("", "Nothing typed."),
    ],
)
def test_a_wrong_bid_is_explained_and_asked_again(typed: str, said: str) -> None:
    text = last_bidder(f"{typed}\n0\n")
    answer = text[text.index("? for help)") :].replace("\n    ", " ")
    assert said in answer and "You may bid 0 to 3, but not 1." in answer
    assert "Bids:  you 0" in answer


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("as", "A♠ does not follow suit: hearts were led, and you hold hearts."),
        ("1", "A♠ does not follow suit: hearts were led, and you hold hearts."),
        ("10d", "You do not hold 10♦."),
        ("4", "There is no card number 4 in your hand."),
        ("0", "There is no card number 0 in your hand."),
        ("bid 1", "The bids are in; now a card is due."),
        ("hearts", "'hearts' is no card."),
    ],
)
def test_a_wrong_card_is_explained_and_asked_again(typed: str, said: str) -> None:
    text = last_bidder(f"0\n{typed}\n2h\n")
    answer = text[text.index("Your card") :].replace("\n    ", " ")
    assert said in answer and "You may play 2♥." in answer
    assert "you 2♥" in answer


@pytest.mark.parametrize("typed", ["2H", "2h", " 2h ", "2♥", "2"])
def test_a_card_may_be_typed_in_many_ways(typed: str) -> None:
    assert "you 2♥" in last_bidder(f"0\n{typed}\n")


def test_a_hint_is_a_legal_move_and_moves_nothing() -> None:
    text = last_bidder("h\n0\nhint\n")
    assert re.search(r"would bid [023]\.", text)
    assert "would play 2♥." in text and text.count("you 2♥") == 0


def test_help_names_every_command() -> None:
    text = last_bidder("?\n")
    for command in ("h ", "t ", "s ", "r ", "q "):
        assert f"\n  {command}" in text


# --- house rules on the screen ----------------------------------------------------------------


def test_the_blind_round_shows_no_card_until_the_bids_are_in_and_plays_itself() -> None:
    rules = Rules(cards=[1], blind_rounds=[1], trumps=["S"])
    game, person = seat_game(rules, deals=[[["AS"], ["KH"], ["4D"], ["7C"]]], dealer=3)
    game.run()
    before, after = person.screen.getvalue().split("The cards are turned up")
    assert "face down until every bid is in" in before and not CARD.search(before)
    assert "Trick 1:  you A♠  heuristic K♥  heuristic-2 4♦  heuristic-3 7♣  -> you" in after
    assert len(person.typed) == 1


def test_bids_made_at_the_same_moment_are_told_when_all_are_in() -> None:
    rules = Rules(cards=[3], hook=False, bidding="simultaneous")
    game, person = seat_game(rules, dealer=0)
    game.run()
    before, after = person.screen.getvalue().split("All bids:")
    assert "heuristic has bid" in before and not re.search(r"heuristic\S* [0-3]\n", before)
    for name in ("you", "heuristic", "heuristic-2", "heuristic-3"):
        assert re.search(rf"{name} \d", after)


# --- the ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ("q\n", "You stopped"),
        ("0\nquit\n", "You stopped"),
        ("", "No more input"),
        ("0\n", "No more"),
    ],
)
def test_stopping_early_saves_the_match_so_far(answers: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "match.json"
    status, text = play_scripted(Rules(first_dealer=3), answers, seed=2, save=str(path))
    assert status == 0 and said in text and f"Record saved: {path}" in text
    record = records.read(path)
    assert Table.from_record(record).decisions >= answers.count("0")
    assert record["winners"] == []


def test_ctrl_c_saves_the_match_so_far(tmp_path: Path) -> None:
    class Impatient(io.StringIO):
        def readline(self, *_: Any) -> str:
            raise KeyboardInterrupt

    path, screen = tmp_path / "match.json", Screen()
    status = play(Rules(), ["heuristic"] * 3, save=str(path), answers=Impatient(), out=screen)
    assert status == 130 and "Interrupted" in screen.getvalue()
    assert Table.from_record(records.read(path)).rules == Rules()


def test_a_file_that_cannot_be_written_is_refused_before_the_first_card(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "no" / "match.json"):
        screen = Screen()
        with pytest.raises(ValueError, match="--save: .* cannot be written"):
            play(Rules(), ["heuristic"] * 3, save=str(wrong), answers=io.StringIO(), out=screen)
        assert screen.getvalue() == ""
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_seat_or_number_of_bots_is_refused() -> None:
    for seat in (-1, 4):
        with pytest.raises(ValueError, match=rf"seat: {seat} .*0 to 3"):
            play(Rules(), ["heuristic"] * 3, seat=seat)
    with pytest.raises(ValueError, match=r"bots: 2 .*3, one for each seat"):
        play(Rules(), ["heuristic"] * 2)


def test_a_bot_that_breaks_a_rule_is_named() -> None:
    class Cheat(Bot):
        name = "cheat"

        def act(self, view: View) -> int:
            return 78

    game, _ = seat_game(Rules(first_dealer=0))
    game.bots = [None, Cheat(), None, None]
    with pytest.raises(BotError, match="cheat in seat 1 answered 78, which is not legal"):
        game.run()


def test_names_on_the_screen_are_short_printable_and_differ() -> None:
    names = short_names(
        ["you", "heuristic", "heuristic", "\x1b[31mred", "x" * 40, "  ", "process:a/b"]
    )
    assert names == ["you-2", "heuristic", "heuristic-2", "[31mred", "x" * 12, "bot", "b"]


# --- a terminal -------------------------------------------------------------------------------


def test_a_terminal_has_colour_waits_after_each_round_and_needs_no_echo(tmp_path: Path) -> None:
    main, side = pty.openpty()
    command = [sys.executable, "-m", "judgement_env.cli", "play", "--cards", "1,1", "--seed", "3"]
    command += ["--bots", "heuristic,heuristic,heuristic", "--delay", "0"]
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
    child = subprocess.Popen(
        command, stdin=side, stdout=side, stderr=side, cwd=ROOT, env=environment, close_fds=True
    )
    os.close(side)
    seen, start = "", time.monotonic()
    waiting = {"Your bid": "0", "Your card": "1", "Enter for the next round": ""}
    answered = 0
    while child.poll() is None and time.monotonic() - start < 300:
        if not select.select([main], [], [], 0.2)[0]:
            continue
        try:
            seen += os.read(main, 4096).decode(errors="replace")
        except OSError:
            break
        tail = seen[answered:].splitlines()[-1:] or [""]
        for question, answer in waiting.items():
            if question in tail[0] and tail[0].endswith(": "):
                bids = re.search(r"only|\((\d)", tail[0])
                typed = bids.group(1) if bids and bids.group(1) else answer
                answered = len(seen)
                os.write(main, (typed + "\n").encode())
    assert child.wait(timeout=60) == 0, seen
    os.close(main)
    assert "\x1b[" in seen and "Enter for the next round" in seen
    assert re.search(r"won the match|share the win", seen)


# --- replay -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a whole match."""
    path = tmp_path_factory.mktemp("records") / "match.json"
    game, _ = seat_game(Rules(cards=[3, 2, 1], blind_rounds=[3]), seat=0)
    game.run()
    records.write(game.table.record(), path)
    return path


def told(path: Path, **options: Any) -> str:
    screen = Screen()
    assert replay(str(path), color="never", out=screen, **options) == 0
    return screen.getvalue()


def test_a_replay_tells_every_card_bid_and_point(played: Path) -> None:
    record, text = records.read(played), told(played)
    for entry in record["rounds"]:
        for hand in entry["hands"]:
            for card in hand:
                assert text.count(card_symbol(CARD_TEXTS.index(card))) >= 2
    for seat, total in enumerate(record["totals"]):
        assert re.search(rf"\n{record['players'][seat]} .* {total}\n", text)
    assert text.count("-> ") == 6 and "points." in text


def test_a_replay_of_one_round_tells_that_round(played: Path) -> None:
    text = told(played, number=2)
    assert "Round 2: 2 cards" in text and "Round 1" not in text and "Round 3" not in text
    with pytest.raises(ValueError, match=r"--round: 4 .*1 to 3"):
        told(played, number=4)


def test_a_replay_for_a_seat_shows_its_hand_only(played: Path) -> None:
    record, text = records.read(played), told(played, seat=0)
    opening = text[: text.index("Bids:")]
    own = {card_symbol(CARD_TEXTS.index(card)) for card in record["rounds"][0]["hands"][0]}
    assert set(CARD.findall(opening)) == own
    blind = text[text.index("Round 3") :]
    assert not CARD.search(blind[: blind.index("Bids:")])
    with pytest.raises(ValueError, match=r"--seat: 9 .*0 to 3"):
        told(played, seat=9)


def test_a_replay_for_a_seat_hides_what_is_not_played_yet(tmp_path: Path) -> None:
    table = Table(Rules(cards=[3], hook=False, bidding="simultaneous"), seed=1, dealer=0)
    table.push("bid 2")
    records.write(table.record(), tmp_path / "open.json")
    assert "player_1 2" in told(tmp_path / "open.json")
    text = told(tmp_path / "open.json", seat=0)
    assert "player_1 2" not in text and len(CARD.findall(text)) == 3
    assert "before the match is over" in text


def test_a_replay_in_steps_waits_after_each_trick(played: Path) -> None:
    answers = io.StringIO("\n" * 20)
    text = told(played, is_stepping=True, answers=answers)
    assert text.count("Enter to go on:") == 6 and answers.tell() == 6


def test_a_record_is_verified_without_telling_it(played: Path) -> None:
    text = told(played, is_check_only=True)
    assert text.count("\n") == 1 and "valid, 3 rounds, 4 players, won by" in text


def test_a_broken_record_is_refused_by_round_and_trick(played: Path, tmp_path: Path) -> None:
    record = records.read(played)
    trick = record["rounds"][0]["tricks"][1]
    trick["winner"] = (trick["winner"] + 1) % 4
    records.write(record, tmp_path / "broken.json")
    with pytest.raises(ValueError, match=r"broken.json: record: round 1, trick [23]"):
        told(tmp_path / "broken.json")


# --- documentation ----------------------------------------------------------------------------


def test_the_guide_names_every_command_and_lists_the_presets_as_they_are() -> None:
    text = (ROOT / "docs" / "play.md").read_text(encoding="utf-8")
    for words in COMMANDS.values():
        assert f"\n| `{words[0]}` |" in text
    bots = text.partition("A bot is ")[2].partition("\n\n")[0]
    for name in (*SIMPLE, "models/NAME", "+search", "process:COMMAND"):
        assert f"`{name}`" in bots
    shown = subprocess.run(
        [sys.executable, "-m", "judgement_env.cli", "rules"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout
    assert shown and f"```text\n{shown}```" in text


def test_the_round_that_the_page_shows_is_the_one_that_is_played() -> None:
    page = (ROOT / "docs" / "play.md").read_text("utf-8")
    shown = page[page.index("```text\nRound 1") + len("```text\n") :]
    shown = shown[: shown.index("\n```")]
    typed = re.findall(r"\(.*for help\): (\S+)$", shown, re.MULTILINE)
    assert len(typed) == 7
    rules = Rules.preset("kachuful", top=3)
    _, printed = play_scripted(rules, "\n".join(typed) + "\n", seed=21)
    lines = [line.rstrip() for line in printed.strip().splitlines()]
    end = next(i for i, line in enumerate(lines) if line.startswith("Round 2 of 3"))
    assert "\n".join(lines[:end]).rstrip() == shown
