"""Evaluates a formula that a stranger typed in, with a budget, and shows what becomes of a bad one."""

import glovebox as gb


def evaluate(formula, variables):
    import math

    return eval(formula, {"math": math}, variables)  # a box is where this is fine


def main():
    formulas = ["x ** 2 + y", "math.sqrt(x)", "x / 0", "__import__('os').listdir('/')", "9 ** 9 ** 9"]
    for formula in formulas:
        # A box for each: nothing that one formula does can be seen by the next. eval() is one of the builtins that
        # code may call with a grant alone.
        with gb.spawn("formula", allowed_imports=["math", "builtins"]) as box:
            try:
                print(f"{formula}  =  {box.call(evaluate, formula, {'x': 16, 'y': 1}, timeout=2)}")
            except gb.PolicyError as error:
                print(f"{formula}  was refused: {type(error).__name__}")
            except gb.TimeoutError:
                print(f"{formula}  took too long")
            except gb.GuestError as error:
                print(f"{formula}  failed: {error}")


if __name__ == "__main__":
    main()
