import { z } from 'zod';

/** The functions of a server of either SDK that are needed to offer tools. */
interface ToolServer {
  assertCanSetRequestHandler?(method: string): void;
  registerCapabilities?(capabilities: object): void;
  setRequestHandler?(...given: unknown[]): unknown;
}

/**
 * Registers handlers for tools in a server that has no tools of its own, so that the session tools can be listed and
 * called there. Must run before the server is connected.
 */
export function offerToolHandlers(server: object): void {
  const target = server as ToolServer;
  try {
    target.assertCanSetRequestHandler?.('tools/list');
  } catch {
    return;
  }
  target.registerCapabilities?.({ tools: {} });
  registerHandler(target, 'tools/list', () => ({ tools: [] }));
  registerHandler(target, 'tools/call', () => {
    throw Object.assign(new Error('There is no such tool.'), { code: -32602 });
  });
}

function registerHandler(server: ToolServer, method: string, handler: () => unknown): void {
  try {
    server.setRequestHandler?.(method, handler);
  } catch {
    // Version 1 of the SDK takes a schema instead of the name.
    server.setRequestHandler?.(z.object({ method: z.literal(method), params: z.any().optional() }), handler);
  }
}
