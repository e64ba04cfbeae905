"""Starts, follows, answers and lists runs with a client that was made from the description of the routes.

    python generated.py FOLDER_OF_THE_MADE_PACKAGE ADDRESS
"""

import sys

folder, address = sys.argv[1:]
sys.path.insert(0, folder)

from flowloom_client import Client  # noqa: E402
from flowloom_client.api.runs import answer_run, follow_run, get_run, list_runs, start_run  # noqa: E402
from flowloom_client.api.workflows import list_workflows  # noqa: E402
from flowloom_client.models import AnswerRequest, NewRun, Problem, Run  # noqa: E402

client = Client(base_url=address)
ids = [workflow.id for workflow in list_workflows.sync(client=client).items]
assert "ask-a-person" in ids, ids

waiting = start_run.sync_detailed(client=client, body=NewRun(workflow="ask-a-person", inputs="tea"), wait=60.0)
assert waiting.status_code == 202 and isinstance(waiting.parsed, Run), waiting
run = waiting.parsed
assert run.status == "waiting", run
assert any(step.question for step in run.steps), run.steps

answered = answer_run.sync(run.run_id, client=client, body=AnswerRequest(value="yes"), wait=60.0)
assert isinstance(answered, Run) and answered.status == "succeeded", answered

shown = get_run.sync(run.run_id, client=client)
assert shown == answered, (shown, answered)
listed = list_runs.sync(client=client, status="succeeded")
assert [item.run_id for item in listed.items] == [run.run_id], listed

events = follow_run.sync_detailed(run.run_id, client=client)
assert b"event: run_finished" in events.content and b"event: done" in events.content, events

refused = start_run.sync_detailed(client=client, body=NewRun(workflow="nobody"))
assert refused.status_code == 404 and isinstance(refused.parsed, Problem), refused
assert refused.parsed.code == "FL1507", refused.parsed
print("ok")
