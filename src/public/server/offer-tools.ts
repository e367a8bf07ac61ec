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
  const lacksList = lacksHandler(target, 'tools/list');
  const lacksCall = lacksHandler(target, 'tools/call');
  if (lacksList && lacksCall) target.registerCapabilities?.({ tools: {} });
  if (lacksList) registerHandler(target, 'tools/list', () => ({ tools: [] }));
  if (!lacksCall) return;
  registerHandler(target, 'tools/call', () => {
    throw Object.assign(new Error('There is no such tool.'), { code: -32602 });
  });
}

function lacksHandler(server: ToolServer, method: string): boolean {
  try {
    server.assertCanSetRequestHandler?.(method);
    return true;
  } catch {
    return false;
  }
}

function registerHandler(server: ToolServer, method: string, handler: () => unknown): void {
  try {
    server.setRequestHandler?.(method, handler);
  } catch {
    // Version 1 of the SDK takes a schema instead of the name.
    server.setRequestHandler?.(z.object({ method: z.literal(method), params: z.any().optional() }), handler);
  }
}
