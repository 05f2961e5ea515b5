"""What no schema can say of a request, and the fuzzer has to keep to."""

import itertools
import re

import schemathesis

MOST = 2**53 - 1
KEY = "Idempotency-Key"
MOST_OF_KEY = 255
IS_KEY = re.compile(rf"[\x21-\x7e]{{1,{MOST_OF_KEY}}}")
sent = itertools.count()


def is_kept(value):
    if isinstance(value, dict):
        return all(map(is_kept, value.values()))
    if isinstance(value, list):
        return all(map(is_kept, value))
    return not isinstance(value, int) or abs(value) <= MOST


@schemathesis.hook
def filter_body(context, body):
    """Numbers are those that JSON's readers keep: ours refuses a whole one beyond 2^53 wherever it stands, also in fields that are
    not read. test/http/body tries it."""
    return is_kept(body)


@schemathesis.hook
def before_call(context, case, kwargs):
    """A new request takes a new key; the fuzzer sends one with many bodies, which is refused. test/api/idempotency tries it. A key
    that is not of the contract's form stays as it is: it shall be refused."""
    key = case.headers.get(KEY)
    if isinstance(key, str) and IS_KEY.fullmatch(key):
        fresh = f"-{next(sent)}"
        case.headers[KEY] = key[: MOST_OF_KEY - len(fresh)] + fresh
