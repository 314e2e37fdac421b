"""Runs a file of tests of the SDK with a real service, as root or as an ordinary user.

    run.py TIER FILE PROGRAMS VENV [TEST...]

TIER is `root` or `user`; PROGRAMS the directory that has glovebox and glovebox-launcher. What the tests need is
copied to a place that the user can read, which is also where they keep state, and which is removed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

USER = 65533
HERE = Path(__file__).resolve().parent
SKIPPED = 77


def main() -> int:
    tier, file, programs, venv = sys.argv[1:5]
    if os.geteuid() != 0 and tier == "root":
        print("this is about what root can do")
        return SKIPPED
    # Not below /tmp: that is private to every box.
    place = Path(tempfile.mkdtemp(prefix="glovebox-sdk-", dir="/var/tmp"))
    try:
        for name in ("glovebox", "glovebox-launcher"):
            shutil.copy(Path(programs) / name, place / name)
        shutil.copytree(HERE.parent.parent / "sdk" / "python" / "src", place / "src",
                        ignore=shutil.ignore_patterns("__pycache__", "_bin"))
        shutil.copytree(HERE, place / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(HERE.parent.parent / "docs", place / "docs")
        shutil.copytree(HERE.parent.parent / "examples", place / "examples")
        shutil.copy(HERE.parent.parent / "sdk" / "python" / "README.md", place / "README.md")
        packages = next(Path(venv).resolve().glob("lib/python3*/site-packages"))
        (place / "home").mkdir()
        place.chmod(0o755)
        words = []
        if tier == "user" and os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(place)], check=True)
            shutil.copytree(packages, place / "packages", ignore=shutil.ignore_patterns("mypy*", "ruff*", "pip*"))
            packages = place / "packages"
            words = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(place / "home"), "GLOVEBOX_STATE": str(place / "home" / "state"),
            "GLOVEBOX": str(place / "glovebox"), "GLOVEBOX_TIER": tier, "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{place / 'src'}:{place / 'tests'}:{packages}", "TMPDIR": "/tmp",
            "GLOVEBOX_TEST_PLACE": str(place),
        }
        chosen = sys.argv[5:] or [Path(file).stem]  # single tests, by name, when a developer looks for something
        done = subprocess.run([*words, "/usr/bin/python3", "-W", "error::ResourceWarning", "-m", "unittest", "-v", *chosen],
                              cwd=place, env=environment, check=False)
        return done.returncode
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
