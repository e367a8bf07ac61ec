import { useRequest } from '../api/use-request.ts';

/** Lists the names of the workspaces, to offer them in forms. */
export function useWorkspaceNames(): string[] {
  const workspaces = useRequest('GET /api/v1/workspaces').answer.value?.workspaces ?? [];
  return workspaces.map(({ name }) => name);
}
