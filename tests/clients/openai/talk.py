"""Talks to workflows with OpenAI's own client for Python, and prints `ok` if everything was as expected.

python talk.py BASE_URL
"""

import asyncio
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-anything", max_retries=0)


def user(text):
    return [{"role": "user", "content": text}]


def models():
    ids = [model.id for model in client.models.list()]
    assert ids == ["ask-a-person", "fails", "hello", "talk"], ids
    assert client.models.retrieve("hello").owned_by == "flowloom"


def chat():
    answer = client.chat.completions.create(model="hello", messages=user("hi"), temperature=0.2, user="me")
    [choice] = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("LLM(Say hi)", "stop"), answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0
    raw = client.chat.completions.with_raw_response.create(model="hello", messages=user("hi"))
    assert raw.parse().id == "chatcmpl-" + raw.headers["x-flowloom-run-id"]


def chunks():
    options = {"include_usage": True}
    stream = client.chat.completions.create(model="hello", messages=user("hi"), stream=True, stream_options=options)
    *some, last = list(stream)
    assert some[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in some) == "LLM(Say hi)"
    assert some[-1].choices[0].finish_reason == "stop" and all(chunk.usage is None for chunk in some)
    assert last.choices == [] and last.usage.total_tokens > 0
    with client.chat.completions.stream(model="hello", messages=user("hi")) as stream:
        assert stream.get_final_completion().choices[0].message.content == "LLM(Say hi)"


async def later():
    asynchronous = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="sk-anything", max_retries=0)
    stream = await asynchronous.chat.completions.create(model="hello", messages=user("hi"), stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "LLM(Say hi)"


def tools():
    said = user("How is it?")
    with client.chat.completions.stream(model="talk", messages=said) as stream:
        [choice] = stream.get_final_completion().choices
    assert choice.finish_reason == "tool_calls", choice
    [call] = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Bonn"})
    said += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
    answer = client.chat.completions.create(model="talk", messages=said)
    assert answer.choices[0].message.content == "Fine.", answer


def threads():
    first = client.chat.completions.create(model="talk", messages=user("It is sunny"), metadata={"thread": "t"})
    header = {"x-flowloom-thread": "t"}
    second = client.chat.completions.create(model="talk", messages=user("And now?"), extra_headers=header)
    assert first.choices[0].message.content == second.choices[0].message.content == "Fine.", second


def errors():
    def fails(kind, call, **arguments):
        try:
            list(call(messages=user("hi"), **arguments))
        except kind as error:
            return error
        raise AssertionError(f"{kind} is expected")

    create = client.chat.completions.create
    missing = fails(openai.NotFoundError, create, model="nope")
    assert (missing.code, missing.type) == ("FL1507", "not_found_error"), missing
    failed = fails(openai.UnprocessableEntityError, create, model="fails")
    assert failed.code == "FL1010" and "boom" in failed.message, failed
    streamed = fails(openai.APIError, create, model="fails", stream=True)
    assert streamed.code == "FL1010" and "boom" in streamed.message, streamed
    fails(openai.BadRequestError, create, model="hello", n=2)
    stranger = client.with_options(api_key="fl_nobody").chat.completions.create
    fails(openai.AuthenticationError, stranger, model="hello")


def responses():
    answer = client.responses.create(model="hello", input="hi")
    assert (answer.output_text, answer.status) == ("LLM(Say hi)", "completed"), answer
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 0
    assert client.responses.retrieve(answer.id).output_text == "LLM(Say hi)"
    kinds = [event.type for event in client.responses.create(model="hello", input=user("hi"), stream=True)]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    with client.responses.stream(model="hello", input="hi") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        assert text == stream.get_final_response().output_text == "LLM(Say hi)"
    *_, failed = client.responses.create(model="fails", input="hi", stream=True)
    assert failed.type == "response.failed" and "boom" in failed.response.error.message, failed


def responses_with_tools():
    with client.responses.stream(model="talk", input="How is it?") as stream:
        asked = stream.get_final_response()
    [call] = [item for item in asked.output if item.type == "function_call"]
    assert json.loads(call.arguments) == {"city": "Bonn"}, asked
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    answer = client.responses.create(model="talk", input=[result], previous_response_id=asked.id)
    assert answer.output_text == "Fine.", answer
    asked = client.responses.create(model="ask-a-person", input="x")
    assert "waits" in asked.output_text, asked
    answer = client.responses.create(model="ask-a-person", input="tea", previous_response_id=asked.id)
    assert "tea" in answer.output_text, answer


models()
chat()
chunks()
asyncio.run(later())
tools()
threads()
errors()
responses()
responses_with_tools()
print("ok")
