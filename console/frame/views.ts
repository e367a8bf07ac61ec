import type { ComponentType } from 'preact';

/** A view of the console. Its code is loaded when it is opened first. */
export interface ViewEntry {
  readonly name: string;
  readonly label: string;
  /** The path of its icon in a square of 24. */
  readonly icon: string;
  /** Loads the view. `detail` is true when the address names one thing of the list. */
  readonly load: (detail: boolean) => Promise<ComponentType>;
}

/** All views, in the order of the navigation. Approvals of single calls will stand after the sessions. */
export const views: readonly ViewEntry[] = [
  {
    name: 'overview',
    label: 'Overview',
    icon: 'M4 20V10m5 10V4m5 16v-7m5 7V8',
    load: async () => (await import('../overview/overview.tsx')).Overview,
  },
  {
    name: 'sessions',
    label: 'Sessions',
    icon: 'M4 6h16M4 12h16M4 18h10',
    load: async (detail) =>
      detail
        ? (await import('../session/session-view.tsx')).SessionView
        : (await import('../sessions/session-list.tsx')).SessionList,
  },
  {
    name: 'servers',
    label: 'Servers',
    icon: 'M4 5h16v6H4zM4 13h16v6H4zM7.5 8h.01M7.5 16h.01',
    load: async (detail) =>
      detail
        ? (await import('../servers/server-view.tsx')).ServerView
        : (await import('../servers/server-list.tsx')).ServerList,
  },
  {
    name: 'workspaces',
    label: 'Workspaces',
    icon: 'M3 7V5h6l2 2h10v12H3z',
    load: async () => (await import('../workspaces/workspace-list.tsx')).WorkspaceList,
  },
  {
    name: 'people',
    label: 'People and keys',
    icon: 'M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zm-6 9c0-3.5 2.7-6 6-6s6 2.5 6 6m1-9.5a3 3 0 0 0 0-6M21 20c0-2.6-1.2-4.7-3-5.5',
    load: async () => (await import('../people/people.tsx')).People,
  },
  {
    name: 'policies',
    label: 'Policies',
    icon: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7',
    load: async () => (await import('../policies/policies.tsx')).Policies,
  },
  {
    name: 'rules',
    label: 'Rules',
    icon: 'M12 3l8 3v6c0 5-3.5 8-8 9-4.5-1-8-4-8-9V6z',
    load: async () => (await import('../rules/rules.tsx')).Rules,
  },
  {
    name: 'journal',
    label: 'Journal',
    icon: 'M5 4h14v16H5zM8 8h8M8 12h8M8 16h5',
    load: async () => (await import('../journal/journal.tsx')).Journal,
  },
];
