"""Run the command line as `python -m abeval`."""

from abeval.cli.main import main

if __name__ == "__main__":
    main()
