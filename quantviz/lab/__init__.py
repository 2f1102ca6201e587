"""The app's state without streamlit: the Lab's state and link, scenarios, what a teacher's link hides."""
