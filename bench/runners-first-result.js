// A gateway in this process, and the time from opening a session to the first result of a tool.
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { findProgramOnPath } from '../build/sandbox/common/find-program.js';
import { createGateway } from '../dist/index.js';

const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const call = { name: 'echo', arguments: { text: 'first' }, _meta: meta };

export async function openFirstResults({ folder, workspace, server }) {
  const gateway = await createGateway({
    config: {
      version: 1,
      servers: { trivial: { command: process.execPath, args: [server], era: 'modern' } },
      workspaces: { here: { path: workspace } },
    },
    dataDir: join(folder, 'data'),
    log: { info() {}, warn() {} },
  });
  const path = process.env.PATH;
  const withoutBwrap = onlyEngines(join(folder, 'engines'), path);
  return {
    async firstResult(runner) {
      // Where there is no bwrap, a sandbox is a container.
      process.env.PATH = runner === 'container' ? withoutBwrap : path;
      try {
        const began = performance.now();
        const trustLevel = runner === 'plain' ? 'direct' : 'sandboxed';
        const { id } = await gateway.createSession({ trustLevel, workspaceId: 'here' });
        await firstCall(gateway.connect(id, 'trivial'));
        const took = performance.now() - began;
        await gateway.endSession(id);
        return took;
      } finally {
        process.env.PATH = path;
      }
    },
    close: () => gateway.close(),
  };
}

async function firstCall(transport) {
  const answered = new Promise((accept) => {
    transport.onmessage = (message) => message.id === 1 && accept(message);
  });
  await transport.start();
  await transport.send({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call });
  const { result } = await answered;
  await transport.close();
  if (result?.content?.[0]?.text !== 'first') throw new Error(`a wrong answer: ${JSON.stringify(result)}`);
}

function onlyEngines(folder, path) {
  mkdirSync(folder);
  for (const name of ['podman', 'docker', 'runc', 'crun']) {
    const found = findProgramOnPath(name, path);
    if (found !== undefined) symlinkSync(found, join(folder, name));
  }
  return folder;
}
