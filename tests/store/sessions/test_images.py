"""Images on disk: stored by content, missing, damaged, exported; and files that are not images."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm.processors", reason="this mlx-lm has no image processors")

import numpy as np
from PIL import Image as Pillow

from chatcli.conversation import images
from chatcli.conversation.images import read
from chatcli.conversation.tree import Message
from chatcli.errors import FolderError, ImagesRefused, NotAnImage, NotImportable
from chatcli.exchange import export, importing
from chatcli.model.inspect import about
from chatcli.session import opening
from chatcli.store import maintenance
from chatcli.store.sessions.folder import SessionFolder
from chatcli.store.sessions.images import Gallery
from tests import ROOT
from tests.support.harness import Harness, outcome
from tests.support.program import Program, entries, folder_contents
from tests.support.sight import write_picture

QUESTION = "What is this?"


@pytest.fixture
def picture_path(tmp_path: Path) -> Path:
    return write_picture(tmp_path / "pictures" / "cat.png", 1)


def harness(model: Path, sessions: Path) -> Harness:
    return Harness(model, sessions, tokens=4, trust_remote_code=True)


@pytest.fixture
def saved(vision_model: Path, picture_path: Path, tmp_path: Path) -> Path:
    """A folder with one session that shows an image."""
    folder = tmp_path / "saved"
    with harness(vision_model, folder) as home:
        home.say(home.chat("talk"), QUESTION, images=[picture_path])
    return folder


def stored_images(sessions: Path) -> list[Path]:
    return sorted(sessions.glob("images/??/*"))


def test_an_image_is_stored_once_by_its_content_for_its_owner_only(saved: Path, picture_path: Path) -> None:
    (path,) = stored_images(saved)
    digest = read(picture_path).picture.sha256
    assert f"{digest[:2]}/{digest}.png" == str(path.relative_to(saved / "images"))
    assert picture_path.read_bytes() == path.read_bytes()
    assert 0o600 == path.stat().st_mode & 0o777
    assert 0o700 == path.parent.stat().st_mode & 0o777
    (user,) = (line for line in entries(saved / "talk.jsonl") if line["type"] == "user")
    assert [{"sha256": digest, "name": "cat.png", "kind": "png", "width": 16, "height": 12}] == (
        user["images"]
    )


def test_the_original_file_is_not_needed_afterwards(
    vision_model: Path, saved: Path, picture_path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(saved, copy)
    with harness(vision_model, saved) as home:
        expected = home.say(home.chat("talk"), "And now?")
    picture_path.unlink()
    with harness(vision_model, copy) as home:
        record = home.say(home.chat("talk"), "And now?")
    assert outcome(expected) == outcome(record)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"other")])
def test_a_lost_image_is_reported_and_the_rest_of_the_conversation_stays(
    damage: object, vision_model: Path, saved: Path
) -> None:
    (path,) = stored_images(saved)
    assert callable(damage)
    damage(path)
    with harness(vision_model, saved) as home:
        chat = home.chat("talk")
        head = chat.conversation.head
        with pytest.raises(ImagesRefused, match=r"The image cat\.png of this conversation .*Put the file"):
            home.say(chat, "And now?")
        assert head == chat.conversation.head
        chat.session.move_head(None)
        assert home.say(chat, "Hello.").tokens


def test_a_damaged_image_reference_is_dropped_and_reported(saved: Path) -> None:
    path = saved / "talk.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kind": "png"', b'"kind": "../x"'))
    transcript = SessionFolder(saved).read("talk")
    (turn,) = transcript.conversation.turns()
    assert (QUESTION, ()) == (turn.user.message.content, turn.user.message.images)
    assert ["line 2 of the session 'talk' has a damaged list of images: left out"] == (transcript.problems)


def test_an_image_is_deleted_with_the_last_session_that_shows_it(saved: Path) -> None:
    folder = SessionFolder(saved)
    opening.branch(folder, "talk", None, "other").close()
    maintenance.delete(folder, "talk")
    (path,) = stored_images(saved)
    (turn,) = folder.read("other").conversation.turns()
    assert path == Gallery(saved).path(turn.user.message.images[0])
    maintenance.delete(folder, "other")
    assert [] == stored_images(saved)


def test_no_image_is_deleted_while_a_transcript_cannot_be_read(saved: Path) -> None:
    (saved / "odd.jsonl").mkdir()
    with pytest.raises(FolderError, match="Cannot delete the images of 'talk': Is a directory"):
        maintenance.delete(SessionFolder(saved), "talk")
    assert stored_images(saved)


def test_an_image_is_not_deleted_before_its_message_is_written(
    vision_model: Path, saved: Path, picture_path: Path
) -> None:
    """The only other session that shows it is deleted at that moment."""
    folder = SessionFolder(saved)
    shared = read(picture_path)
    with folder.create("new", model=None, system=None) as session:
        with Gallery(saved).keeping([shared]):
            deleting = threading.Thread(target=maintenance.delete, args=(folder, "talk"))
            deleting.start()
            deleting.join(0.2)
            assert deleting.is_alive()
            session.append(Message("user", QUESTION, images=(shared.picture,)), None)
        deleting.join()
    assert ["new"] == folder.names()
    assert 1 == len(stored_images(saved))


def test_an_export_contains_the_image_and_an_import_shows_it(
    vision_model: Path, saved: Path, tmp_path: Path
) -> None:
    conversation = SessionFolder(saved).read("talk").conversation
    text = export.text_of("json", "talk", conversation, bytes_of=Gallery(saved).data)
    with importing.save(SessionFolder(tmp_path / "there"), importing.read(text.encode())) as session:
        assert conversation.path() == [
            entry.__class__(**{**vars(entry), "record": old.record})
            for entry, old in zip(session.conversation.path(), conversation.path(), strict=True)
        ]
    with harness(vision_model, saved) as home, harness(vision_model, tmp_path / "there") as importer:
        expected, record = (harness.say(harness.chat("talk"), "And now?") for harness in (home, importer))
    assert outcome(expected) == outcome(record)
    for form in ("md", "html"):
        assert "[image: cat.png 16×12]" in export.text_of(form, "talk", conversation)


def test_an_export_with_another_image_in_it_is_refused(saved: Path) -> None:
    conversation = SessionFolder(saved).read("talk").conversation
    exported = export.to_dict("talk", conversation, lambda _: b"other")
    with pytest.raises(NotImportable, match="damaged: the image"):
        importing.read(json.dumps(exported).encode())


def image_bytes(form: str, size: tuple[int, int] = (8, 6), **options: object) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Pillow.fromarray(noise).save(buffer, form, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("form", "kind"),
    list(
        zip(
            ["PNG", "JPEG", "GIF", "WEBP"],
            ["png", "jpg", "gif", "webp"],
            strict=True,
        )
    ),
)
def test_images_are_known_by_their_bytes_whatever_their_name(form: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(image_bytes(form))
    picture = read(path).picture
    assert (kind, 8, 6) == (picture.kind, picture.width, picture.height)
    assert (6, 8, 3) == images.pixels(picture, path.read_bytes()).shape


def test_a_photograph_is_upright(tmp_path: Path) -> None:
    exif = Pillow.Exif()
    exif[images.ORIENTATION] = 6
    path = tmp_path / "photo.jpg"
    path.write_bytes(image_bytes("JPEG", (8, 6), exif=exif))
    picture = read(path).picture
    assert (6, 8) == (picture.width, picture.height)
    assert (8, 6, 3) == images.pixels(picture, path.read_bytes()).shape


def png_header(side: int) -> bytes:
    """The beginning of a PNG of `side` by `side` pixels."""
    header = b"IHDR" + side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    end = b"\0\0\0\0IDAT" + zlib.crc32(b"IDAT").to_bytes(4, "big")
    return b"\x89PNG\r\n\x1a\n\0\0\0\r" + header + zlib.crc32(header).to_bytes(4, "big") + end


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: b"hello", r"is not an image that can be read: give a PNG, JPEG, WebP or GIF file\."),
        (lambda: b"", "is not an image"),
        (lambda: image_bytes("BMP"), "is not an image"),
        (lambda: image_bytes("PNG")[:30], r"is damaged: save it again"),
        (lambda: png_header(10_001), "has more than 100 million pixels"),
        (lambda: png_header(40_000), "has more than 100 million pixels"),
    ],
)
def test_an_unusable_image_file_is_refused_with_its_reason(make: object, reason: str, tmp_path: Path) -> None:
    assert callable(make)
    path = tmp_path / "odd.png"
    path.write_bytes(make())
    with pytest.raises(NotAnImage, match=reason):
        read(path)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    with path.open("wb") as file:
        file.truncate(images.MAX_BYTES + 1)
    with pytest.raises(NotAnImage, match=r"The image huge\.png has 25 MB, and 25 MB is the limit"):
        read(path)


def test_a_truncated_image_is_refused_before_anything_is_written(
    vision_model: Path, picture_path: Path, tmp_path: Path
) -> None:
    picture_bytes = picture_path.read_bytes()
    picture_path.write_bytes(picture_bytes[:-40])
    with harness(vision_model, tmp_path / "saved") as home:
        chat = home.chat("talk")
        old_contents = folder_contents(tmp_path / "saved")
        with pytest.raises(NotAnImage, match=r"The image cat\.png is damaged"):
            home.say(chat, QUESTION, images=[picture_path])
    assert old_contents == folder_contents(tmp_path / "saved")


def test_models_report_whether_they_take_images(vision_model: Path, models: Path) -> None:
    sees_images = {path.name: about(path).images for path in (vision_model, models / "qwen3_5")}
    assert {vision_model.name: True, "qwen3_5": False} == sees_images


def test_an_older_mlx_lm_is_refused_with_an_upgrade_command(tmp_path: Path) -> None:
    """It has no image processors."""
    (tmp_path / "mlx_lm").mkdir()
    (tmp_path / "mlx_lm" / "__init__.py").write_text("")
    code = (
        "from chatcli.model import vision\n"
        "try: vision.check(None, 'seer')\n"
        "except vision.ImagesRefused as error: print(error)\n"
    )
    path = f"{tmp_path}:{ROOT}"
    process = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, check=True
    )
    expected = f"Images need a newer mlx-lm. To install it: {sys.executable} -m pip install -U mlx-lm\n"
    assert expected == process.stdout.decode()


@pytest.fixture
def program(vision_model: Path, tmp_path: Path) -> Program:
    program = Program(tmp_path / "home", vision_model)
    program.approve_code()
    write_picture(program.home / "cat.png", 1)
    write_picture(program.home / "my dog.png", 2)
    return program


def image_environment(program: Program) -> dict[str, str]:
    return program.environment(CHATCLI_MAX_TOKENS="4")


@pytest.mark.slow
def test_a_script_shows_images_by_a_command_and_by_their_names(program: Program) -> None:
    script = ["/image cat.png", QUESTION, 'and @"my dog.png" here', "and @nothing.png?"]
    piped = program.chat(script, "-S", "piped", env=image_environment(program))
    assert 3 == len(piped)
    turns = program.run("show", "piped", "--json").json()["turns"]
    assert [["cat.png"], ["my dog.png"], []] == [
        [image["name"] for image in turn.get("images", [])] for turn in turns
    ]


@pytest.mark.slow
def test_cli_python_and_script_show_the_same_image(program: Program) -> None:
    env = image_environment(program)
    reply = program.ask(QUESTION, "--image", "cat.png", "-S", "asked", env=env)
    code = (
        "from chatcli import Chat\n"
        f"with Chat('python', model={str(program.model)!r}, trust_remote_code=True, max_tokens=4,"
        f" sessions={str(program.sessions)!r}) as chat:\n"
        f"    print(chat.send({QUESTION!r}, images=['cat.png']).text(), chat.stats['tokens'])\n"
    )
    python = subprocess.run(
        [sys.executable, "-c", code], cwd=program.home, env=env, capture_output=True, check=True
    )
    piped = program.chat(["/image cat.png", QUESTION], "-S", "piped", env=env)
    assert str(reply["tokens"]) in python.stdout.decode()
    assert reply["tokens"] == piped[0]["tokens"]
    assert piped[0]["reused_tokens"] > 0
    assert "[image: cat.png 16×12]" in program.run("show", "piped").text
    batch = program.run(
        "ask", "--each", "-", "--image", "cat.png", "-S", "each", stdin=f"{QUESTION}\nHm?\n", env=env
    )
    assert 2 == len(batch.text.split("---"))


@pytest.mark.slow
def test_refusals_leave_nothing_behind(program: Program, models: Path) -> None:
    env = image_environment(program)
    text_only = program.run(
        "ask", QUESTION, "--image", "cat.png", "-m", models / "qwen3_5", expect=1, env=env
    )
    assert "cannot see images: leave them out, or choose one" in text_only.errors
    missing = program.run("ask", QUESTION, "--image", "no.png", expect=2, env=env)
    assert "chatcli: The image no.png cannot be read: No such file" in missing.errors
    assert [] == list(program.sessions.glob("*.jsonl"))
    assert [] == stored_images(program.sessions)
    script = program.run(
        "chat", "-m", models / "qwen3_5", stdin="Hello.\n/image cat.png\n", expect=1, env=env
    )
    assert "cannot see images: leave them out, or choose one" in script.errors


@pytest.mark.slow
def test_without_pillow_one_sentence_says_what_to_install(program: Program) -> None:
    hidden = program.home / "hidden" / "PIL"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError('none')")
    env = image_environment(program)
    env["PYTHONPATH"] = f"{hidden.parent}:{env['PYTHONPATH']}"
    errors = program.run("ask", QUESTION, "--image", "cat.png", expect=1, env=env).errors
    assert f"chatcli: Images need Pillow. To install it: {sys.executable} -m pip install pillow\n" == errors
    assert program.run("ask", "Hello.", env=env).out
