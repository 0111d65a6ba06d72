.PHONY: demo docs test test-slow test-lower-bounds lint lock setup clean

PYTEST = .venv/bin/pytest

setup: .venv/.ready

.venv/.ready: pyproject.toml requirements.lock scripts/setup.sh
	bash scripts/setup.sh

# A half-cheetah learns to run while a page shows it (its address is printed); then its curve and a film of it.
demo: setup
	rm -rf runs/demo
	.venv/bin/slipstream train half-cheetah --run runs/demo --seed 1 --seconds 90 --watch
	.venv/bin/slipstream eval runs/demo
	.venv/bin/slipstream plot runs/demo
	.venv/bin/slipstream video runs/demo

# The site of the documentation, in site/; `.venv/bin/mkdocs serve` shows it while it is written.
docs: setup
	.venv/bin/mkdocs build --strict

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright
	.venv/bin/lint-imports

test: lint
	$(PYTEST) -n 2 --dist worksteal -m "not slow"

test-slow: setup
	$(PYTEST) -m slow

# The lowest versions that pyproject.toml allows, in an environment of their own.
test-lower-bounds:
	bash scripts/test-lower-bounds.sh

# After a change of the dependencies in pyproject.toml; `bash scripts/lock.sh --upgrade` takes the newest of all.
lock:
	bash scripts/lock.sh

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis
