export interface Ranks { verdict: string }
