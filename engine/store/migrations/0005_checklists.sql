-- A task keeps its checklists from movement to movement: named lists of items, as JSON.

ALTER TABLE tasks ADD COLUMN checklists TEXT NOT NULL DEFAULT '{}';
