"""Training text: what is read, what is held out, and what is refused before anything is written."""

import pytest

from polarlens.cli.main import main
from polarlens.errors import UsageError
from polarlens.twins.corpus import read_corpus

WORDS = "one two three four five six seven eight nine ten "


def book(path, paragraphs=80, of=100, name="A"):
    path.write_text("\n\n".join(f"{name}{n} " + WORDS * (of // 10) for n in range(paragraphs)))
    return path


def test_bom_crlf_and_wrapped_lines_are_read_as_paragraphs(tmp_path):
    padding = "\r\n\r\n".join(WORDS * 100 for _ in range(80))
    (tmp_path / "a.txt").write_bytes(f"\ufeffFirst line\r\nof one  paragraph.\r\n\r\n{padding}".encode())
    corpus = read_corpus([tmp_path / "a.txt"])
    assert corpus.training[0] == "First line of one paragraph."
    assert len(corpus.training) + len(corpus.held_out) == 81


def test_of_few_files_the_last_tenth_of_each_is_held_out(tmp_path):
    for name in "ab":
        book(tmp_path / f"{name}.txt", 400, name=name)
    corpus = read_corpus([tmp_path])
    assert corpus.held_out_files == ()
    assert [p.split()[0] for p in corpus.held_out] == [f"{name}{n}" for name in "ab" for n in range(360, 400)]
    assert not set(corpus.training) & set(corpus.held_out)


def test_of_many_files_whole_ones_are_held_out_whatever_else_is_there(tmp_path):
    for k in range(20):
        book(tmp_path / f"{k}.txt", 40, name=f"b{k}-")
    corpus = read_corpus([tmp_path])
    assert len(corpus.held_out_files) == 2
    assert {p.split("-")[0][1:] + ".txt" for p in corpus.held_out} == set(corpus.held_out_files)
    assert read_corpus(sorted(tmp_path.iterdir(), reverse=True)) == corpus


REFUSED = {
    "missing": ("there is no such file", lambda path: path / "x.txt"),
    "empty folder": ("holds no .txt file", lambda path: path),
    "too little": ("too few to train on", lambda path: book(path / "x.txt", 2)),
    "empty": ("too few to train on", lambda path: book(path / "x.txt", 0)),
    "not UTF-8": ("invalid UTF-8 at byte offset 3", lambda path: _bytes(path / "x.txt", b"abc\xff")),
    "NUL": ("a NUL character", lambda path: _bytes(path / "x.txt", b"abc\0")),
}


def _bytes(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", REFUSED)
def test_unusable_text_is_refused_and_nothing_is_written(name, tmp_path, capsys):
    said, make = REFUSED[name]
    (tmp_path / "in").mkdir()
    path = make(tmp_path / "in")
    with pytest.raises(UsageError, match=said):
        read_corpus([path])
    assert main(["twins", "train", "--text", str(path), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert str(path) in message
    assert not (tmp_path / "out").exists()


def test_other_bad_requests(tmp_path, capsys):
    text, out = str(book(tmp_path / "x.txt", 800)), str(tmp_path / "out")
    (tmp_path / "file").write_text("")
    for arguments, said in [
        (["--out", out], "--text"),
        (["--text", text, "--out", out, "--steps", "0"], "something to train"),
        (["--text", text, "--out", out, "--steps", "x"], "'--steps'"),
        (["--text", text, "--out", out, "--minutes", "-1"], "something to train"),
        (["--text", text, "--out", out, "--minutes", "nan"], "something to train"),
        (["--text", text, "--out", out, "--steps", "5", "--minutes", "1"], "both"),
        (["--text", text, "--out", out, "--pairs", str(tmp_path / "none.jsonl")], "no such file"),
        (["--text", text, "--out", str(tmp_path / "file" / "x")], "cannot be written"),
    ]:
        assert main(["twins", "train", *arguments]) == 2, arguments
        assert said in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
    assert main(["twins", "evaluate", str(tmp_path), "--text", text]) == 2
    assert "there is no twin here" in capsys.readouterr().err
