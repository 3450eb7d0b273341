"""Pure transforms: DataFrame in, DataFrame out. No I/O, no actions, no Python UDF."""
