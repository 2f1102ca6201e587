"""The app's state without streamlit: the Lab's state and link, scenarios, a teacher's choices in a link."""
