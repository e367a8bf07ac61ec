/** The whole configuration as the contract shows it, with its placeholders filled in. */
export const contractExample = `version: 1
listen: { host: 127.0.0.1, port: 7420 }
auth: { anonymous: off, onInvalidKey: refuse, jwt: [{ issuer: "https://id.example.com", audience: ["https://gw.example.com/mcp"], jwksUri: "https://id.example.com/jwks" }] }
store: { kind: sqlite }                 # memory | sqlite | redis: { url }
sessions: { ttlSeconds: 3600, maxLifetimeSeconds: 86400, maxSessions: 1000, maxPerUser: 200, metadataBytes: 10240, includeMeta: false, defaultTrust: sandboxed, allowDirect: auto, bindAddress: false }
quotas: { session: { callsPerMinute: 6000, concurrentCalls: 64 }, user: { callsPerMinute: 100 }, workspace: { concurrentCalls: 8 } }
context: { envPrefixes: [AMBIT], announceKeys: [ambit] }
include: [ .mcp.json ]
servers:
  notes:
    command: node
    args: [notes.js]
    env: { NOTES_DIR: /srv/notes }
    trust: [direct, sandboxed]
    scope: session
    push: { sampling: false, elicitation: true, roots: false }
    sandbox: { network: [api.example.com:443], readable: [], writable: [], memoryMb: 512, pids: 64 }
    tools: { allow: ["*"], deny: [delete_*], permissions: { write_note: notes:write }, confirm: [] }
    cache: { read_note: { ttlSeconds: 60, per: session } }
  search: { url: "https://search.example.com/mcp", context: pseudonymous }
rules:
  - { id: no-prod-writes, deny: "notes__write_*", when: "session.trustLevel == 'sandboxed' && args.path.startsWith('prod/')" }
workspaces:
  my-project:
    path: /srv/projects/my-project
    trust: direct
    capabilities: { servers: all }
    env: { notes: { CUSTOM_VAR: value } }
    isolation: shared
    backend: local
governance: { carrier: first-result, policies: [{ name: require-tests, text: All code changes must include tests. }], objectives: [{ text: Reduce deployment time to under 5 minutes }] }
`;
