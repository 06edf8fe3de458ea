"""A model endpoint on loopback that keeps its own account of what it served.

It speaks enough of the OpenAI dialect (``POST /v1/chat/completions``, ``GET /v1/models``; ``/v1/responses``
and ``/v1/embeddings``, never streamed) and of Anthropic's (``POST /v1/messages``: the same answers, rules and
account, errors in its shape) for tests and benchmarks, as a process of its own, so that a test can kill the
client, or the endpoint, and still know what was really billed. Start it by
`tests.endpoint.client.running_endpoint(...)`, or by hand::

    python -m tests.endpoint --port 0 --latency-ms 50 --api-key KEY --rules RULES.json --account-file A.jsonl

The first line on stdout is ``{"port": …, "base_url": "http://127.0.0.1:…/v1"}``. It ends when stdin closes
(`--stay` keeps it). Every option below is also a keyword of `running_endpoint` (`latency_ms=50`).

Options
-------
``--port`` (0: any free one), ``--host`` (127.0.0.1)
``--latency-ms``            wait before each answer; ``--latency-spread-ms`` adds up to so many more, by the
                            request's digest
``--api-key``               what ``Authorization: Bearer`` or ``x-api-key`` must carry, else 401; without it
                            any key will do
``--models``                comma-separated names that /v1/models lists (default ``test-model``); with
                            ``--strict-models`` another name is refused with 404
``--rules``                 path of a JSON file, or the JSON itself: the script, see below; ``POST /_rules``
                            replaces it
``--text``                  the answer, ``{prompt}`` and ``{turn}`` filled in (default ``Answer to {prompt}``)
``--reasoning``             the reasoning text (default ``I thought about {prompt}``); ``""`` for none
``--reasoning-field``       its place: ``reasoning`` (default), ``reasoning_content``, ``thinking``,
                            ``reasoning_details``, ``tags`` (think tags in the text)
``--account-file``          one JSON line per request, appended by one write before the answer leaves
``--counts-only``           the account keeps sums and seventeen bytes a request (``GET /_records``), for runs
                            of a million; no rule may ask for ``seen``
``--honour-idempotency``    a repeated Idempotency-Key gets the first answer again and is not billed again
``--keep-bodies``           ``GET /_bodies`` gives path, headers and body of each request
``--no-bill-aborted``       a client that leaves before its answer is not billed (default: it is)

Rules
-----
A list of objects, looked at in order; the first that matches and is not used up decides::

    {"match": {...}, "times": 2, "skip": 1, "then": {...}}

``match`` (all that are given must hold; an empty one matches every POST to chat/completions):
``prompt`` (the last user text, exactly), ``contains`` (a part of it), ``turn`` (1 + assistant messages after
that user message), ``model``, ``from_request`` / ``to_request`` (the request's number, from 1, inclusive),
``seen`` (how often this very body came, from 1). ``times``: how often the rule may be used (default: always).
``skip``: let so many matches pass first. ``each``: count `times` and `skip` for each prompt on its own.

``then`` (all optional):
``status``, ``headers`` {name: value}, ``body`` (an object, or raw text with ``content_type``), ``html``
(true: a page of HTML, 200 unless `status` says otherwise), ``error`` {...} (the body ``{"error": ...}``);
``text``, ``reasoning``, ``reasoning_field``, ``finish_reason``, ``usage`` (an object; null: left out),
``usage_factor`` (output tokens times so much), ``tool_calls`` [{"name", "arguments", "id"}] with arguments an
object or raw text; ``stream`` (how, where a stream was asked for: false answers in one piece, else an object
of ``pieces`` (characters of a piece of text), ``crlf``, ``comments`` (between the events), ``done`` (false:
no ``[DONE]``), ``usage`` (false: none), ``events`` (only so many of them, then the end), ``error`` (told
after them)); ``latency_ms``; ``bill`` (against the default: 2xx and faults are billed, refusals not);
``fault``: ``close`` (read the request, close without a byte), ``reset`` (the same with a TCP reset), ``cut``
(half of the body, then close), ``hang`` (never answer), ``half_json`` (a whole HTTP answer, half of the
JSON), ``garbage`` (bytes that are no HTTP), ``endless`` (a body that never ends), ``trickle`` (likewise, a
byte each 50 ms).

The account
-----------
``GET /_account`` gives ``{"totals": {...}, "requests": [...]}``, ``GET /_totals`` the first part alone; the
lines of the account file are the same request objects, with the fields

    n, method, path, status, outcome, auth_ok, idempotency_key, digest (SHA-256 of the body, hex), prompt,
    turn, model, billed, input_tokens, output_tokens, client (connection number), seen

`outcome` is ``answered`` (a 2xx in full), ``refused`` (another status), ``repeated`` (idempotent repeat),
``aborted`` (the client left first), or a fault's name. Tokens count only where ``billed`` is true. Totals:
requests, answered, refused, aborted, faults, repeated, billed, input_tokens, output_tokens, connections,
in_flight, max_in_flight. A text has as many tokens as words; ``max_tokens`` cuts the answer (finish reason
``length``). Requests that have arrived and wait for their latency are in no list yet, only in in_flight.
"""
