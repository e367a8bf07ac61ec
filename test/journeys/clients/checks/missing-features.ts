import type { McpClient } from '../connect/mcp-client.ts';
import type { UpstreamName } from '../upstreams.ts';
import type { Feature } from './try-features.ts';

/** The features an upstream lacks in an era, so that no other feature can go missing unnoticed. */
export function listMissingFeatures(upstream: UpstreamName, era: McpClient['era']): Feature[] {
  const gone: Feature[] = era === 'modern' ? ['ping'] : [];
  if (upstream !== 'filesystem') return gone;
  return [
    'progress',
    'logging',
    'resources',
    'subscribe',
    'prompts',
    'completion',
    'sampling',
    'elicitation',
    'list_changed',
    ...gone,
  ];
}

/** server-everything and server-filesystem are built on the SDK's first generation. */
export function speaksModern(upstream: UpstreamName): boolean {
  return upstream.startsWith('fixture');
}
