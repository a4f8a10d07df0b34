# The same tasks as `python3 tasks.py TASK`, for those who have make.
PYTHON ?= python3

.PHONY: demo test test-full lint env
demo test test-full lint env:
	$(PYTHON) tasks.py $@
