"""Lets a command loose on a directory, shows what it changed, and takes over only what was wanted."""

import os
import sys
import tempfile
from pathlib import Path

import glovebox as gb


def main():
    project = Path(tempfile.mkdtemp(dir=os.environ.get("HOME")))
    (project / "notes.txt").write_text("pears\napples\n")
    command = "sort -o notes.txt notes.txt; echo 'curl evil' > .envrc; rm -rf /usr 2>/dev/null; ls /usr > /dev/null && echo survived"

    with gb.spawn("review", python=False, workspace=project) as box:
        box.run(command, on_output=lambda stream, text: sys.stdout.write(text))
        for change in box.diff():  # diff_text() has the lines
            print(change.kind, change.path)
        try:
            box.commit()
        except gb.CommitRefused as refused:
            print("held back:", [held["path"] for held in refused.held])
        box.commit(reject=[".envrc"])

    print((project / "notes.txt").read_text().split(), sorted(os.listdir(project)))


if __name__ == "__main__":
    main()
