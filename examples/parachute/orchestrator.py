"""An orchestrator in Python, with the standard library only. It starts a gateway in a process of its own, opens a session
for a workspace and a trust level, runs an agent with a token of the session, and ends the session.

    python3 orchestrator.py my-project sandboxed
"""

import json
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def send(method, url, token, body=None, headers=None):
    """Sends JSON and returns the JSON of the answer."""
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(url, data, {**sent, **(headers or {})}, method=method)) as response:
            return json.load(response)
    except HTTPError as error:
        sys.exit(f"{method} {url}: {error.read().decode()}")


class Gateway:
    """A gateway and its control API. The API needs the admin token, which no agent must ever get."""

    def __init__(self, config, data_dir):
        command = ["ambit", "serve", "--config", config, "--data-dir", data_dir, "--port", "0", "--json"]
        self.process = subprocess.Popen([*command, "--log-level", "warn"], stdout=subprocess.PIPE, text=True)
        # It prints one line, when it is ready.
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.admin_token = Path(data_dir, "admin-token").read_text().strip()

    def control(self, method, path, body=None):
        return send(method, f"{self.url}/api/v1{path}", self.admin_token, body)

    def close(self):
        self.process.terminate()
        self.process.wait()


def call_tool(url, token, name, **arguments):
    """Calls a tool with MCP 2026-07-28, which has no handshake: one request, one answer."""
    version, method = "2026-07-28", "tools/call"
    meta = {"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": name, "arguments": arguments, "_meta": meta}}
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name}
    return send("POST", url, token, body, headers)["result"]["content"][0]["text"]


def run_agent(url, token):
    """Stands for your agent. It gets the address of the gateway and a token of one session, and nothing else."""
    print("agent: add_note:", call_tool(url, token, "vault__add_note", text="Water the beans."))
    print("agent: delete_notes:", call_tool(url, token, "vault__delete_notes"))


def main(workspace="my-project", trust="sandboxed"):
    gateway = Gateway("ambit.yaml", "data")
    try:
        mcp = f"{gateway.url}/mcp"
        draft = {"workspaceId": workspace, "trustLevel": trust, "userId": "ada", "agentId": "coder"}
        session = gateway.control("POST", "/sessions", draft)["id"]
        try:
            # A new token for each run of the agent, so that the orchestrator has to store none.
            token = gateway.control("POST", f"/sessions/{session}/tokens")["token"]
            run_agent(mcp, token)
            for entry in gateway.control("GET", f"/servers/vault/logs?session={session}")["lines"]:
                print("vault:", entry["line"])
        finally:
            # This also ends the server processes of the session.
            gateway.control("DELETE", f"/sessions/{session}")
        print("after the end:", call_tool(mcp, token, "vault__list_notes"))
    finally:
        gateway.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
