"""The command `hardmax` and its subcommands."""

from __future__ import annotations

import click

from hardmax import __version__
from hardmax.cli._bounds import show_bounds
from hardmax.cli._compile import compile_source
from hardmax.cli._diagram import show_diagram
from hardmax.cli._disguise import disguise_model
from hardmax.cli._errors import Commands, debug
from hardmax.cli._experiment import run_experiment
from hardmax.cli._export import export_model
from hardmax.cli._plan import plan_source
from hardmax.cli._regions import show_regions
from hardmax.cli._run import run_model
from hardmax.cli._show import show_file
from hardmax.cli._stability import show_stability
from hardmax.cli._verify import verify_model


@click.group(
    "hardmax",
    cls=Commands,
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


main.add_command(compile_source)
main.add_command(disguise_model)
main.add_command(export_model)
main.add_command(show_bounds)
main.add_command(show_diagram)
main.add_command(plan_source)
main.add_command(run_experiment)
main.add_command(run_model)
main.add_command(show_regions)
main.add_command(show_file)
main.add_command(show_stability)
main.add_command(verify_model)
