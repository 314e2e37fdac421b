"""Starts a service and runs javascript_sdk_test.mjs against it.

The SDK is where install.sh put it: build/clients, beside the command.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "serve"))

from service import BINARY, TIER, Service  # noqa: E402


def main():
    installed = Path(BINARY).resolve().parent / "clients" / "javascript"
    # Modules are looked for beside the file that imports them.
    shutil.copy(HERE / "javascript_sdk_test.mjs", installed)
    service = Service(token="sdk-token-123")
    try:
        environment = {**os.environ, "SERVICE_URL": f"http://127.0.0.1:{service.port}", "SERVICE_TOKEN": "sdk-token-123",
                       "WORKSPACE": str(service.work), "DATA": str(service.data), "OWNER": "65533" if TIER == "user" else ""}
        node = installed.parent / "python" / "bin" / "node"
        return subprocess.run([str(node), "--test", "javascript_sdk_test.mjs"], env=environment,
                              cwd=installed).returncode
    finally:
        service.close()


if __name__ == "__main__":
    sys.exit(main())
