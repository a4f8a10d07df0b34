"""Rows: one measured thing each, in Parquet parts that are written whole or not at all."""
