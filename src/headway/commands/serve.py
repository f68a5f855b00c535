"""headway serve: models of any task over HTTP, for LibreTranslate's and DeepL's clients, for programs and people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.errors import UsageError

Option = typer.Option


def serve(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Model folders of any task; else the package's own.")
    ] = None,
    host: Annotated[str, Option(help="Address to listen on; others than loopback need a key.")] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on; 0: any that is free.")] = 5000,
    key_file: Annotated[Path | None, Option(help="Keys that are accepted, as hashes; made by --make-key.")] = None,
    make_key: Annotated[Path | None, Option(help="Add a new key's hash to this file, print the key, and end.")] = None,
    insecure: Annotated[bool, Option("--insecure", help="Let other machines in without a key.")] = False,
    allowed_host: Annotated[
        list[str] | None, Option(help="Another name of this server, such as a proxy's; * for any.")
    ] = None,
    cors_origin: Annotated[list[str] | None, Option(help="A site whose pages may ask; * for all.")] = None,
    url_prefix: Annotated[str, Option(help="Begin every address with this, such as /mt.")] = "",
    log_text: Annotated[bool, Option("--log-text", help="Write what is translated into the log.")] = False,
    workers: Annotated[int, Option(help="Model processes at work.")] = 1,
    spares: Annotated[int, Option(help="Loaded processes that wait to replace one that fails.")] = 1,
    beam: Annotated[int, Option(help="Hypotheses that grow together when a request does not say.")] = 5,
    queue: Annotated[int, Option(help="Work that may wait: source pieces times beam.")] = 250_000,
    client_requests: Annotated[int, Option(help="Requests of one address or key that are answered at once.")] = 128,
    deadline: Annotated[float, Option(help="Seconds until a request is answered or refused.")] = 8.0,
    trace_deadline: Annotated[float, Option(help="Seconds until a trace is answered or given up.")] = 20.0,
    no_trace: Annotated[bool, Option("--no-trace", help="Refuse requests to look inside the models.")] = False,
    characters: Annotated[int, Option(help="Longest text.")] = 5_000,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    engine: Annotated[str, Option(help="auto, native, ctranslate2, torch or cuda.")] = "auto",
    precision: Annotated[str, Option(help="auto, fp32, bf16 or int8.")] = "auto",
) -> None:
    """Serve models of any task over HTTP, with a page that looks inside them. Stops on SIGTERM, after answering."""
    from headway.builtin import chosen
    from headway.serve.settings import Limits, Settings

    try:
        from headway.serve import keys, server
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed; pip install 'headway[serve]'") from None
    if make_key is not None:
        print(keys.make_key(make_key))
        return
    settings = Settings(
        folders=chosen(folders or ()), host=host, port=port, insecure=insecure, key_file=key_file,
        allowed_hosts=tuple(allowed_host or ()), cors_origins=tuple(cors_origin or ()),
        url_prefix=url_prefix, log_text=log_text, workers=workers,
        spares=spares, beam=beam, device=device, engine=engine, precision=precision,
        traces=not no_trace,
        limits=Limits(
            queue=queue, deadline=deadline, trace_deadline=trace_deadline, text=characters,
            client_requests=client_requests,
        ),
    )  # fmt: skip
    server.run(settings)
