import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { buildParityServer } from './parity-tools.js';

const [sdk] = process.argv.slice(2);
if (sdk === 'v1') await buildParityServer('v1').connect(new StdioServerTransport());
else serveStdio(() => buildParityServer('v2'));
