"""Agents of the tests: a function and a program that lead the same chat of ten calls."""

CALLS = 10

FUNCTION = '''
"""An agent that leads a chat of ten calls, with a tool call after the fifth."""

CALLS = 10


async def agent(prompt, ctx):
    """Ask ten times, each time with all that was said."""
    messages = [{"role": "user", "content": prompt}]
    for turn in range(1, CALLS + 1):
        answer = await ctx.complete(messages)
        messages += [answer.message, {"role": "user", "content": f"{prompt}: turn {turn}"}]
        if turn == 5:
            result = await ctx.tool("terminal", command="echo once >> diary.txt; echo said")
            messages[-1]["content"] += " " + result["output"].strip()
'''

PROGRAM = '''
"""A program that knows nothing of evrun and leads a chat of ten calls through a plain HTTP client."""

import json
import os
import sys
import urllib.request

CALLS = 10
URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
HEADERS = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}


def ask(messages):
    body = json.dumps({"model": os.environ["OPENAI_MODEL"], "messages": messages}).encode()
    with urllib.request.urlopen(urllib.request.Request(URL, body, HEADERS)) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


prompt = sys.stdin.read()
messages = [{"role": "user", "content": prompt}]
for turn in range(1, CALLS + 1):
    text = ask(messages)
    messages += [
        {"role": "assistant", "content": text},
        {"role": "user", "content": f"{prompt}: turn {turn}"},
    ]
with open("done.txt", "x") as file:
    file.write(text)
'''
