"""`autograder demo` says what the cheating submission does and what to do next."""

from autograder import demo


def test_the_demo_says_what_each_cheat_does(capsys):
    demo.show_cheats()
    said = " ".join(capsys.readouterr().out.split())
    assert all(exercise in said for exercise in demo.CHEATS) and "Wrong: " not in said
    assert "week01.exchange: returns its own tensor, nothing was exchanged." in said


def test_the_demo_ends_with_the_next_step(capsys, monkeypatch):
    monkeypatch.setattr(demo, "show_ranks", lambda: None)
    monkeypatch.setattr(demo, "show_grades", lambda: None)
    demo.main()
    assert "make lab" in capsys.readouterr().out
