"""Talks to workflows as frameworks do that use OpenAI's API, and prints `ok` if everything was as expected.

python talk.py BASE_URL
"""

import sys

from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

BASE_URL = sys.argv[1]


class City(BaseModel):
    name: str
    people: int


BONN = City(name="Bonn", people=330000)


def langchain():
    for uses_responses in (False, True):
        model = ChatOpenAI(base_url=BASE_URL, api_key="any", model="hello", use_responses_api=uses_responses)
        assert model.invoke("hi").text == "LLM(Say hi)"
        assert "".join(chunk.text for chunk in model.stream("hi")) == "LLM(Say hi)"
    model = ChatOpenAI(base_url=BASE_URL, api_key="any", model="city")
    for method in ("json_schema", "function_calling", "json_mode"):
        assert model.with_structured_output(City, method=method).invoke("Answer in JSON.") == BONN, method
    [call] = model.bind_tools([City], tool_choice="any").invoke("hi").tool_calls
    assert (call["name"], call["args"]["name"]) == ("City", "Bonn"), call


def pydantic_ai():
    provider = OpenAIProvider(base_url=BASE_URL, api_key="any")
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        assert Agent(kind("hello", provider=provider)).run_sync("hi").output == "LLM(Say hi)"
        # It offers the type as a function, and requires that it is called.
        assert Agent(kind("city", provider=provider), output_type=City).run_sync("hi").output == BONN


langchain()
pydantic_ai()
print("ok")
