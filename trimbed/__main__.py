"""``python -m trimbed``."""

from trimbed.cli.main import main

if __name__ == "__main__":
    main()
