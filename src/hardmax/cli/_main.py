"""The command `hardmax` and its subcommands."""

from __future__ import annotations

from importlib import import_module
from typing import final

import click

from hardmax import __version__
from hardmax.cli._errors import Commands, debug

# Each with its file, its function, and the line that `hardmax --help` says of it: a command's file
# is loaded when the command is run, since all of them together take half a second.
_COMMANDS = {
    "bounds": ("_bounds", "show_bounds", "Bound the cells of an architecture, exactly."),
    "compile": ("_compile", "compile_source", "Compile a function, a network or a program."),
    "diagram": ("_diagram", "show_diagram", "Show which key of a head wins where."),
    "disguise": (
        "_disguise",
        "disguise_model",
        "Hide what a legible model does, and prove it again.",
    ),
    "experiment": (
        "_experiment",
        "run_experiment",
        "Tabulate regions of random and constructed Transformers.",
    ),
    "export": ("_export", "export_model", "Write a model for other people's tools."),
    "plan": ("_plan", "plan_source", "Show what every route would cost."),
    "regions": (
        "_regions",
        "show_regions",
        "Count the linear regions of a network or hard Transformer.",
    ),
    "run": ("_run", "run_model", "Evaluate a compiled model at a point, or on a word."),
    "show": ("_show", "show_file", "Show what a model or network file holds."),
    "stability": (
        "_stability",
        "show_stability",
        "How close every head is to hard attention, with guarantees.",
    ),
    "verify": ("_verify", "verify_model", "Establish a model's claim afresh, from its file alone."),
    "warm": ("_warm", "warm_up", "Compile all loops ahead, for images and clusters."),
}


@final
class LateCommands(Commands):
    """The commands of the table, loaded one by one when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        file, function, _ = _COMMANDS[cmd_name]
        found = getattr(import_module(f"hardmax.cli.{file}"), function)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, _, said) in sorted(_COMMANDS.items())])


@click.group(
    "hardmax",
    cls=LateCommands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 a claim fails or is not proved, 2 bad input, "
    "70 a fault of hardmax itself, 130 interrupted, 141 nobody read all of the output.",
)
@debug
@click.version_option(__version__, prog_name="hardmax", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Compile functions, networks and sequence programs into Transformers, with a bill and a
    certified error.

    \b
    Example:
      hardmax plan "x*y" --on x=-1:1 --on y=-1:1 --error 1e-3
      hardmax compile "x*y" --on x=-1:1 --on y=-1:1 --certify -o t.safetensors
      hardmax verify t.safetensors
      hardmax run t.safetensors x=0.3 y=0.5
      hardmax show t.safetensors
      hardmax export t.safetensors --to onnx -o t.onnx
      hardmax run --program sort --alphabet abcde --length 5 cabea
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
