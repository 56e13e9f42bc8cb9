"""`python -m abeval`: the command line."""

from abeval.cli.main import main

if __name__ == "__main__":
    main()
